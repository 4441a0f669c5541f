"""compare, plan and note, on workspaces with real files."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import pytest

from testigo.campaign import Workspace, load, new_campaign
from testigo.campaign.records import comparison_of
from testigo.campaign.registration import register
from testigo.cli import run
from testigo.ledger import Ledger, kinds
from testigo.tasks import task_for

ROWS = 60


@pytest.fixture
def campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return new_campaign(tmp_path / "c").relative_to(tmp_path)


@pytest.fixture
def workspace(campaign: Path) -> Workspace:
    loaded = load(campaign)
    made = Workspace.for_campaign(loaded).create(loaded)
    Ledger.open(made.ledger_path).close()
    return made


def predictions(folder: Path, campaign: Path, right: int) -> None:
    """A file in which the first `right` rows are exactly right."""
    metrics = task_for(load(campaign)).metrics
    place = folder / "predictions"
    place.mkdir(parents=True)
    lines = [
        {
            "row": f"r{i}",
            "category": "ab"[i % 2],
            "group": f"g{i}",
            "prompt_sha256": str(i),
            "output": f"{i} {i < right}",
            "scores": {name: float(i < right or "valid" in name) for name in metrics},
        }
        for i in range(ROWS)
    ]
    (place / "validation.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (place / "validation.meta.json").write_text(json.dumps({"seconds": 120.0}))


def end_run(workspace: Workspace, id: str, variant: str, seed: int, state: str = "completed") -> Path:
    with Ledger.open(workspace.ledger_path) as ledger:
        ledger.plan_run(id, variant=variant, seed=seed, defines={})
        ledger.start_run(id)
        ledger.end_run(id, state=state, cause="" if state == "completed" else "loss is NaN", updates=3, seconds=1.0)
    return workspace.run(id)


@pytest.fixture
def evaluated(campaign: Path, workspace: Workspace) -> Workspace:
    predictions(workspace.baseline("abc"), campaign, 6)
    predictions(end_run(workspace, "control-s0-1", "control", 0), campaign, 40)
    with Ledger.open(workspace.ledger_path) as ledger:
        ledger.append(kinds.BASELINE_EVALUATED, {"fingerprint": "abc"})
    return workspace


def answer(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> dict[str, Any]:
    assert run([*map(str, arguments), "--json"]) == code
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def words(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> tuple[str, str]:
    assert run([*map(str, arguments)]) == code
    printed = capsys.readouterr()
    return printed.out, printed.err


def test_compare_before_anything_was_evaluated_names_the_next_command(
    campaign: Path, workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert answer(capsys, "compare", campaign, code=2)["problems"][0]["action"] == f"testigo baseline {campaign}"
    predictions(workspace.baseline("abc"), campaign, 6)
    assert answer(capsys, "compare", campaign, code=2)["problems"][0]["action"] == f"testigo run {campaign}"


def test_compare_computes_from_the_predictions_and_prints_the_promised_document(
    campaign: Path, evaluated: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    document = answer(capsys, "compare", campaign)
    assert document["improvement"]["verdict"] == "shown"
    assert document["baseline"]["exact_match"] == pytest.approx(0.1)
    assert document["control"]["exact_match"] == pytest.approx(40 / 60)
    assert document["guards"][0]["metric"]
    assert len(document["rows"]["fixed"]) == 34
    assert document["not_compared"] == []


def test_compare_says_the_conclusion_first_and_fits_into_eighty_columns(
    campaign: Path, evaluated: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    predictions(end_run(evaluated, "fast-s0-1", "fast", 0), campaign, 58)
    end_run(evaluated, "slow-s0-1", "slow", 0, "diverged")
    out, err = words(capsys, "compare", campaign)
    assert out.startswith("Improvement shown: exact_match went from 0.100 to 0.667")
    assert "34 fixed, 0 broken, 6 right both times, 20 wrong both times" in out
    assert "not compared: slow-s0-1 (diverged: loss is NaN)" in out
    assert "exact_match by category" in out
    assert max(len(line.rstrip()) for line in out.splitlines()) <= 80
    assert f"testigo open-test {campaign}" in err


def test_compare_reads_the_kept_comparison_until_a_younger_prediction_comes(
    campaign: Path, evaluated: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = answer(capsys, "compare", campaign) | {"conclusion": "as it was kept"}
    evaluated.comparison_path.write_text(json.dumps(kept))
    assert answer(capsys, "compare", campaign)["conclusion"] == "as it was kept"
    os.utime(evaluated.comparison_path, (1, 1))
    assert answer(capsys, "compare", campaign)["conclusion"].startswith("Improvement shown")


def test_compare_takes_the_workspace_too_and_leaves_invalid_runs_out_in_words(
    campaign: Path, evaluated: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    predictions(end_run(evaluated, "control-s1-1", "control", 1), campaign, 41)
    with Ledger.open(evaluated.ledger_path) as ledger:
        ledger.invalidate_run("control-s1-1", reason="wrong machine")
    document = answer(capsys, "compare", evaluated.root)
    assert document["not_compared"] == [{"id": "control-s1-1", "state": "invalid", "cause": "wrong machine"}]
    assert document["seeds"] is None


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("by: 0.10", "by: 0.000001", "hypothesis.improve.by: 0.1 → 1e-06"),
        ("alpha: 0.05", "alpha: 0.2", "hypothesis.alpha: 0.05 → 0.2"),
        ("updates: 40", "updates: 41", "training.updates: 40 → 41"),
    ],
    ids=["margin", "alpha", "updates"],
)
@pytest.mark.parametrize("is_kept", [True, False], ids=["kept", "computed"])
def test_compare_judges_by_what_was_registered_not_by_a_file_edited_afterwards(
    campaign: Path, evaluated: Workspace, capsys: pytest.CaptureFixture[str],
    old: str, new: str, key: str, is_kept: bool,
) -> None:  # fmt: skip
    with evaluated.open_ledger() as ledger:
        register(load(campaign), ledger)
    if is_kept:
        evaluated.comparison_path.write_text(json.dumps(answer(capsys, "compare", campaign)))
    text = campaign.read_text()
    campaign.write_text(text.replace(old, new))
    assert campaign.read_text() != text
    for named in (campaign, evaluated.root):
        (problem,) = answer(capsys, "compare", named, code=2)["problems"]
        assert problem["found"].startswith("changed after 1 run began: ")
        assert key in problem["found"]
        assert "testigo amend campaign.yaml" in problem["action"]
    campaign.write_text(text)
    answer(capsys, "compare", campaign)


def test_compare_after_an_amendment_judges_anew(
    campaign: Path, evaluated: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    with evaluated.open_ledger() as ledger:
        register(load(campaign), ledger)
        ledger.append(kinds.COMPARED, {"split": "validation", "run": "control-s0-1"})
    kept = answer(capsys, "compare", campaign) | {"conclusion": "as it was kept"}
    evaluated.comparison_path.write_text(json.dumps(kept))
    assert answer(capsys, "compare", campaign)["conclusion"] == "as it was kept"
    campaign.write_text(campaign.read_text().replace("by: 0.10", "by: 0.90"))
    with evaluated.open_ledger() as ledger:
        register(load(campaign), ledger, reason="it has to pay")
    assert answer(capsys, "compare", campaign)["improvement"]["verdict"] == "refuted"


def test_compare_names_rows_that_differ_and_lines_that_are_none(
    campaign: Path, evaluated: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    path = evaluated.run("control-s0-1") / "predictions" / "validation.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join(lines[:-1]))
    assert "1 row (r59) missing" in answer(capsys, "compare", campaign, code=2)["problems"][0]["found"]
    path.write_text("\n".join([*lines[:4], "{}"]))
    assert answer(capsys, "compare", campaign, code=2)["problems"][0]["where"].endswith("validation.jsonl:5")


def measured(workspace: Workspace, campaign: Path) -> None:
    corpus = workspace.corpus("f")
    corpus.mkdir(parents=True)
    splits = {"train": {"rows": 100}, "validation": {"rows": ROWS}, "test": {"rows": 20}}
    (corpus / "manifest.json").write_text(json.dumps({"splits": splits}))
    pilot = workspace.pilot("p")
    pilot.mkdir(parents=True)
    seconds = {"load": 10.0, "update-1": 9.0, "update-2": 8.0, "validation": 30.0, "export": 20.0}
    phases = [{"phase": name, "seconds": value} for name, value in seconds.items()]
    (pilot / "phases.json").write_text(json.dumps({"phases": phases}))


def test_plan_before_the_pilot_names_the_next_command(
    campaign: Path, workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    (problem,) = answer(capsys, "plan", campaign, code=2)["problems"]
    assert problem["action"] == f"testigo baseline {campaign}; then testigo pilot {campaign}"
    measured(workspace, campaign)
    assert answer(capsys, "plan", campaign, code=2)["problems"][0]["action"] == f"testigo baseline {campaign}"


def test_plan_lays_the_measurements_on_days_with_cost(
    campaign: Path, evaluated: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    measured(evaluated, campaign)
    document = answer(capsys, "plan", campaign, "--days", "3", "--days", "0.0001", "--price", "2", "--margin", "1")
    three, none = document["packages"]
    assert three["fits"]
    assert three["cost"] == pytest.approx(144)
    assert not none["fits_control"]
    pieces = {piece["name"]: piece["seconds"] for piece in document["pieces"]}
    assert pieces["baseline"] == pytest.approx(10 + 120)
    assert pieces["pilot"] == pytest.approx(77)
    assert document["measured"]["update"] == "the pilot's second update"
    steps = evaluated.run("control-s0-1") / "steps.jsonl"
    steps.write_text(
        '{"update": 1, "seconds": 2.0}\n{"update": 2, "seconds": 4.0}\n{"validation_loss": 1, "seconds": 5}\n{"up'
    )
    again = answer(capsys, "plan", campaign)
    assert again["measured"]["update"] == "2 updates of runs"
    assert [package["days"] for package in again["packages"]]
    out, _ = words(capsys, "plan", campaign)
    assert "everything fits" in out


def test_plan_writes_a_page_a_picture_a_calendar_and_the_table_of_gpus(
    campaign: Path, evaluated: Workspace, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    measured(evaluated, campaign)
    names = {name: tmp_path / name for name in ("plan.html", "plan.svg", "plan.ics", "gpus.toml")}
    document = answer(
        capsys, "plan", campaign, "--write-gpus", names["gpus.toml"], "--gpus", names["gpus.toml"],
        "--html", names["plan.html"], "--picture", names["plan.svg"],
        "--calendar", names["plan.ics"], "--start", "2026-12-01T09:00:00",
    )  # fmt: skip
    assert document["gpus"][0]["basis"].startswith("no estimate: the table has no row for")
    page = names["plan.html"].read_text(encoding="utf-8")
    assert "The pieces in time" in page
    assert "<script" not in page
    assert names["plan.svg"].read_text(encoding="utf-8").startswith("<svg")
    assert "DTSTART:20261201T" in names["plan.ics"].read_text(encoding="utf-8")
    assert document["written"] == [str(names[name]) for name in ("plan.html", "plan.svg", "plan.ics")]
    out, _ = words(capsys, "plan", campaign, "--gpus", "builtin")
    assert "On other GPUs: no estimate" in out
    assert answer(capsys, "plan", campaign, "--html", tmp_path / "no" / "x.html", code=2)["problems"]


def test_plan_refuses_days_that_are_none(
    campaign: Path, evaluated: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    measured(evaluated, campaign)
    assert answer(capsys, "plan", campaign, "--days", "0", code=2)["problems"][0]["where"] == "--days"


def test_a_note_is_dated_tied_to_a_run_or_a_rule_and_listed(
    campaign: Path, evaluated: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    made = answer(capsys, "note", campaign, "noisy after 40", "--run", "control-s0-1", "--gate", "t104")
    assert made == {"ok": True, "event": made["event"], "run": "control-s0-1", "gate": "T104"}
    words(capsys, "note", campaign, "a second one")
    listed = answer(capsys, "note", campaign)["notes"]
    assert [note["text"] for note in listed] == ["noisy after 40", "a second one"]
    assert listed[0]["time"]
    out, _ = words(capsys, "note", campaign)
    assert "noisy after 40" in out
    with Ledger.open(evaluated.ledger_path) as ledger:
        assert ledger.verify() == ()


def test_a_note_is_read_from_standard_input(
    campaign: Path, evaluated: Workspace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("two\nlines\n"))
    words(capsys, "note", campaign, "-")
    assert answer(capsys, "note", campaign)["notes"][0]["text"] == "two\nlines"


def test_a_run_is_declared_invalid_by_hand_and_stays(
    campaign: Path, evaluated: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    out, _ = words(capsys, "note", campaign, "the rows of May were wrong", "--run", "control-s0-1", "--invalid")
    assert "it was completed, and it stays" in out
    (run_now,) = answer(capsys, "status", campaign)["runs"]
    assert (run_now["state"], run_now["cause"]) == ("invalid", "the rows of May were wrong")


def test_a_second_declaration_is_told_who_made_the_first_and_why(
    campaign: Path, evaluated: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    with Ledger.open(evaluated.ledger_path) as ledger:
        ledger.invalidate_run("control-s0-1", reason="it read the rows of May", by="Ada")
    declared = ("ledger", "invalid", campaign, "control-s0-1", "--because", "too late")
    (problem,) = answer(capsys, *declared, code=2)["problems"]
    assert "by Ada at 20" in problem["found"]
    assert problem["found"].endswith("it read the rows of May")


def test_where_the_only_control_is_invalid_compare_concludes_nothing_and_says_what_leads_on(
    campaign: Path, evaluated: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    evaluated.comparison_path.write_text(json.dumps(answer(capsys, "compare", campaign) | {"run": "control-s0-1"}))
    assert comparison_of(evaluated) is not None
    answer(capsys, "ledger", "invalid", campaign, "control-s0-1", "--because", "it read the rows of May")
    (problem,) = answer(capsys, "compare", campaign, code=2)["problems"]
    assert "control-s0-1 is invalid (it read the rows of May)" in problem["found"]
    assert problem["action"].startswith("put another seed under seeds")
    assert 'testigo run c/campaign.yaml --amend "…"' in problem["action"]
    assert comparison_of(evaluated) is None
    with evaluated.open_ledger() as ledger:
        ledger.plan_run("control-s1-1", variant="control", seed=1, defines={})
    assert answer(capsys, "compare", campaign, code=2)["problems"][0]["action"] == f"testigo run {campaign}"


@pytest.mark.parametrize(
    "arguments",
    [
        ("about nobody", "--run", "nobody"),
        ("about no rule", "--gate", "memory"),
        ("about no rule", "--gate", "X999"),
        (" ",),
        ("no run", "--invalid"),
        ("not known", "--invalid", "--run", "nobody"),
    ],
)
def test_a_note_about_nothing_is_refused(
    campaign: Path, evaluated: Workspace, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    before = Ledger.open(evaluated.ledger_path).head()
    problem = answer(capsys, "note", campaign, *arguments, code=2)["problems"][0]
    assert all(problem.values())
    assert Ledger.open(evaluated.ledger_path).head() == before
