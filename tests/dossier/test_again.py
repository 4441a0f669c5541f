"""What dossier.json and campaign.yaml say is held against the events beside them, though everything was drawn again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testigo.campaign import Workspace, load
from testigo.cli import run
from testigo.dossier import sums, twin, verify_dossier
from testigo.dossier.build import _write_texts
from testigo.errors import WorkspaceError
from testigo.ledger import kinds

BESIDE = "dossier.json: does not follow from the events and files beside it: "


def forge(dossier: Path, change: Callable[[Any], object]) -> tuple[str, ...]:
    """Change dossier.json, draw everything from it again, write all digests again; the faults."""
    document = json.loads((dossier / "dossier.json").read_text(encoding="utf-8"))
    change(document)
    _write_texts(dossier, twin.from_json(json.dumps(document)))
    sums.write_sums(dossier)
    return verify_dossier(dossier).faults


def rewrite(dossier: Path, change: Callable[[Any], object]) -> tuple[str, ...]:
    """As `forge`, and cheaper: the page stays, and is a fault of its own."""
    document = json.loads((dossier / "dossier.json").read_text(encoding="utf-8"))
    change(document)
    (dossier / "dossier.json").write_text(twin.to_json(twin.from_json(json.dumps(document))), encoding="utf-8")
    sums.write_sums(dossier)
    return verify_dossier(dossier).faults


def test_runs_that_are_left_out_are_named(dossier: Path) -> None:
    faults = forge(dossier, lambda d: d.update(runs=[]))
    assert any(fault.startswith(f"{BESIDE}runs: claimed 0 entries, found ") for fault in faults), faults


def test_each_value_that_the_events_tell_otherwise_is_named(dossier: Path) -> None:
    def change(d: Any) -> None:
        d["runs"][0].update(attempts=4, cause="asked to stop", seconds=1.0, state="stopped-early", n_scored=3)
        d["runs"][1]["scores"]["exact_match"] = 0.99
        d["runs"][2]["cost"] = 0.01
        d["registration"].update(digest="0" * 64, time="2020-01-01T00:00:00+00:00")
        d["amendments"][0].update(reason="none", known="nothing: no result had been seen")
        d["notes"][0]["text"] = "another"
        d["waivers"][0]["reason"] = "another"
        d["environment"]["device"] = "cuda"
        d["adapter"]["base"] = "another/base"
        d["data"].update(fingerprint="0" * 64, samples="")
        d["data"]["splits"][0]["rows"] = 9
        d["predictions"][0].update(rows=1)
        d["comparison"]["detectable_effect"] = 0.001
        d["examples"][0]["after"] = "another"
        d["ledger"]["kinds"]["note"] = 1
        d["baseline"]["exact_match"] = 0.01

    faults = "\n".join(forge(dossier, change))
    for place in (
        "runs[0].attempts: claimed 4, found 1", "runs[0].cause: claimed 'asked to stop', found ''", "runs[0].seconds",
        "runs[0].state", "runs[0].n_scored", "runs[1].scores.exact_match", "runs[2].cost", "registration.digest",
        "registration.time", "amendments[0].reason", "amendments[0].known", "notes[0].text", "waivers[0].reason",
        "environment.device: claimed 'cuda', found 'cpu'", "adapter.base", "data.fingerprint", "data.samples",
        "data.splits[0].rows", "predictions[0].rows", "comparison.detectable_effect", "examples[0].after",
        "ledger.kinds.note", "baseline.exact_match",
    ):  # fmt: skip
        assert f"{BESIDE}{place}" in faults, (place, faults)


def test_findings_left_out_and_a_verdict_turned_are_named(dossier: Path) -> None:
    faults = "\n".join(rewrite(dossier, lambda d: d["gates"].update(findings=[], ok=False)))
    assert "dossier.json: gates.findings: claimed none, found D112, V105 in event " in faults
    assert "dossier.json: gates.ok: claimed False, found True in event " in faults


def test_parts_that_are_said_not_to_be_there_are_named(dossier: Path) -> None:
    def change(d: Any) -> None:
        d.update(gates=None, comparison=None, registration=None, missing=[])

    faults = "\n".join(rewrite(dossier, change))
    assert "dossier.json: gates: claimed none, and event " in faults
    assert "dossier.json: has no comparison on validation, and event " in faults
    assert f"{BESIDE}registration: claimed None" in faults
    assert f"{BESIDE}missing: " in faults


def test_a_plan_that_is_not_that_of_the_campaign_file_is_named(dossier: Path) -> None:
    kept = (dossier / "campaign.yaml").read_text(encoding="utf-8")

    def change(d: Any) -> None:
        d["plan"].update(question="Another?", text="another", identity="0" * 64, seeds=[0])
        d["plan"]["settings"]["training"]["updates"] = 1
        d["hypothesis"]["by"] = 0.01

    faults = "\n".join(rewrite(dossier, change))
    for place in ("question", "text", "identity", "seeds", "settings.training.updates"):
        assert f"{BESIDE}plan.{place}: claimed" in faults, faults
    assert f"{BESIDE}hypothesis.by: claimed 0.01, found 0.1" in faults
    assert (dossier / "campaign.yaml").read_text(encoding="utf-8") == kept


def test_a_campaign_file_that_is_not_the_registered_one_is_named_with_what_differs(dossier: Path) -> None:
    path = dossier / "campaign.yaml"
    kept = path.read_text(encoding="utf-8")
    path.write_text(kept.replace("by: 0.10", "by: 0.01"), encoding="utf-8")
    sums.write_sums(dossier)
    faults = verify_dossier(dossier).faults
    assert any(
        fault.startswith("campaign.yaml: is not the campaign of event ")
        and fault.endswith("(campaign-amended): hypothesis.improve.by: 0.1 → 0.01")
        for fault in faults
    ), faults
    path.write_text(kept.replace("losing JSON validity", "breaking JSON").replace("[3, 7]", "[30]"), encoding="utf-8")
    sums.write_sums(dossier)
    (named,) = [fault for fault in verify_dossier(dossier).faults if fault.startswith("campaign.yaml: is not")]
    assert "question: Does a rank-16 adapter raise exactly right orders without losing JSON validity? → " in named
    assert "budget.days: 3, 7 → 30" in named
    path.write_text("campaign: [", encoding="utf-8")
    sums.write_sums(dossier)
    assert any(
        f.startswith("campaign.yaml against the registration: could not be checked")
        for f in verify_dossier(dossier).faults
    )
    path.unlink()
    sums.write_sums(dossier)
    assert "campaign.yaml: missing, and dossier.json has its text" in verify_dossier(dossier).faults


def test_what_the_folder_of_an_earlier_version_does_not_tell_is_listed_by_name(story: Any, making: Any) -> None:
    """Without evidence and without digests of it, nothing is false, and nothing is said to have been checked."""
    dossier = making.without_digests(story).write()
    shutil.rmtree(dossier / "evidence")

    def change(d: Any) -> None:
        d["runs"][0]["best_validation_loss"] = 0.001

    assert forge(dossier, change) == ()
    told = next(
        line for line in verify_dossier(dossier).not_checked if line.startswith("in dossier.json, what no event")
    )
    for name in (
        "runs.best_validation_loss",
        "runs.curve",
        "gates.phases",
        "gates.findings beyond their codes",
        "data.sources",
    ):
        assert name in told
    told = next(line for line in verify_dossier(dossier).not_checked if line.startswith("in campaign.yaml"))
    assert "question" in told


def test_interrupted_running_and_invalid_runs_waivers_and_an_opened_test_raise_no_alarm(
    story: Any, making: Any
) -> None:
    making.open_test(story)
    with story.ledger() as ledger:
        first, second = (one.id for one in ledger.runs()[:2])
        ledger.invalidate_run(first, reason="its rows were wrong")
        ledger.plan_run("late", variant="half-rate", seed=7, defines={})
        ledger.start_run("late")
        ledger.end_run("late", state="interrupted", cause="asked to stop", updates=3, seconds=4.0)
        ledger.plan_run("going", variant="half-rate", seed=8, defines={})
        ledger.start_run("going")
        ledger.plan_run("waits", variant="half-rate", seed=9, defines={})
        ledger.append(kinds.GATE_WAIVED, {"code": "V105", "reason": "it is long enough"})
        ledger.append(kinds.NOTE, {"text": "odd"}, run=second)
        ledger.append(
            kinds.PILOT_FINISHED, {"fingerprint": "q" * 12, "ok": False, "findings": ["D1"], "phases": ["data"]}
        )
    assert verify_dossier(story.write()).faults == ()


def test_a_campaign_file_edited_while_the_campaign_went_on_is_kept_as_it_was_read(story: Any) -> None:
    path = story.campaign.path
    kept = path.read_text(encoding="utf-8")
    try:
        path.write_text(kept.replace("by: 0.10", "by: 0.30"), encoding="utf-8")
        folder = story.write()
    finally:
        path.write_text(kept, encoding="utf-8")
    assert (folder / "campaign.yaml").read_text(encoding="utf-8") == kept
    assert verify_dossier(folder).faults == ()


def test_a_campaign_file_with_a_byte_order_mark_and_windows_lines_is_that_campaign(
    new_story: Callable[..., Any], making: Any
) -> None:
    story = new_story()
    path = story.campaign.path
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    other = making.Story(load(path), Workspace(story.workspace.root))
    assert verify_dossier(other.write()).faults == ()


@pytest.mark.parametrize("number", ["0", "2", '"x"', "true"])
def test_another_format_is_bad_input_and_not_a_false_dossier(
    dossier: Path, number: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (dossier / "dossier.json").write_text(f'{{"format": {number}, "more": []}}', encoding="utf-8")
    sums.write_sums(dossier)
    with pytest.raises(WorkspaceError) as caught:
        verify_dossier(dossier)
    assert "this version reads 1" in caught.value.problems[0].found
    assert run(["verify", str(dossier), "--no-control"]) == 2
    assert "written by format" in capsys.readouterr().err


def test_the_schema_knows_one_format() -> None:
    assert twin.json_schema()["properties"]["format"]["const"] == 1


def test_an_added_empty_folder_is_named(dossier: Path) -> None:
    (dossier / "extra" / "deep").mkdir(parents=True)
    (dossier / "adapter" / "more").mkdir()
    faults = verify_dossier(dossier).faults
    assert "extra/: is an empty folder, which no dossier has" in faults
    assert any("adapter/more/: is an empty folder" in fault for fault in faults)
    assert not any("deep" in fault for fault in faults)
    assert any("more/: is an empty folder" in fault for fault in verify_dossier(dossier / "adapter").faults)
