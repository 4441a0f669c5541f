"""What changes under a workspace: before the first run, after it, in the rows, in the base."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from silent import Silent

from testigo.ledger import kinds

if TYPE_CHECKING:
    from whole import Finished, Place


def test_before_any_run_a_change_needs_no_reason_and_is_recorded(tmp_path: Path) -> None:
    import whole

    place = whole.make(tmp_path / "fresh")
    assert _register(place) == "registered"
    assert _register(place) == "unchanged"
    place.change({"hypothesis.improve.by": 0.2, "training.learning_rate": 5e-3})
    assert _register(place) == "amended"
    (event,) = place.events(kinds.CAMPAIGN_AMENDED)
    assert event.body["reason"] == "before the first run"
    assert event.body["changes"]["hypothesis.improve.by"] == [0.1, 0.2]


def test_after_a_run_a_change_needs_a_reason(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    before = place.events()
    monkeypatch.setattr(subprocess, "Popen", _no_process)
    place.change({"hypothesis.improve.by": 0.05})
    refused = place.testigo("run", "--json")
    assert refused.code == 2
    assert "hypothesis.improve.by: 0.1 → 0.05" in refused.problem["found"]
    assert "--amend" in refused.problem["action"]
    assert place.events() == before
    amended = place.testigo("run", "--json", "--amend", "a smaller gain is worth it too")
    assert amended.code == 0, amended.err
    (event,) = place.events(kinds.CAMPAIGN_AMENDED)
    assert event.body["reason"] == "a smaller gain is worth it too"
    assert event.body["changes"] == {"hypothesis.improve.by": [0.1, 0.05]}
    assert "a smaller gain" in (place.workspace / "dossier" / "index.html").read_text(encoding="utf-8")
    assert len(list((place.workspace / "runs").iterdir())) == 1, "the hypothesis trains nothing anew"
    assert [event.kind for event in place.events()[len(before) :]] == [
        kinds.CAMPAIGN_AMENDED, kinds.HYPOTHESIS_WEIGHED, kinds.PILOT_FINISHED, kinds.COMPARED, kinds.DOSSIER_WRITTEN,
    ]  # fmt: skip


def test_the_language_may_change_freely_and_the_dossier_follows(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "Popen", _no_process)
    place.change({"language": "es"})
    assert place.testigo("run", "--json").code == 0
    assert place.events(kinds.CAMPAIGN_AMENDED) == ()
    assert '<html lang="es"' in (place.workspace / "dossier" / "index.html").read_text(encoding="utf-8")


def test_another_question_after_a_run_is_told_and_passes_as_an_amendment_alone(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was asked before the compute is no result, and no less a promise; the runs stay those that they are."""
    import whole

    monkeypatch.setattr(subprocess, "Popen", _no_process)
    asked = place.events(kinds.CAMPAIGN_REGISTERED)[0].body["beside"]["question"]
    place.change({"question": f"  {asked}\n"})
    assert place.testigo("run", "--json").code == 0, "white space is no other question"
    place.change({"question": "Does anything come of it?", "budget": {"days": [3]}})
    for command in ("run", "dossier", "compare"):
        refused = place.testigo(command, "--json")
        assert refused.code == 2, command
        assert f"question: '{asked}' → 'Does anything come of it?'" in refused.problem["found"]
        assert "budget: None → {'currency': None, 'days': [3]" in refused.problem["found"]
    amended = place.testigo("amend", "--json", "--because", "the first wording said too little")
    assert amended.document["changes"]["question"] == [asked, "Does anything come of it?"]
    assert place.testigo("run", "--json").code == 0
    page = (place.workspace / "dossier" / "index.html").read_text(encoding="utf-8")
    assert "Does anything come of it?" in page
    assert "the first wording said too little" in page
    assert asked in page, "the first wording stands beside it"
    assert len(list((place.workspace / "runs").iterdir())) == 1, "the question trains nothing anew"
    assert place.testigo("ledger verify", "--json").document["ok"]
    verified = whole.testigo("verify", str(place.workspace / "dossier"), "--no-control", "--json")
    assert verified.document["ok"], verified.document["faults"]


def test_a_dossier_between_an_amendment_and_the_next_start_shows_no_result_by_the_old_promise(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    import whole

    monkeypatch.setattr(subprocess, "Popen", _no_process)
    dossier = str(place.workspace / "dossier")
    place.change({"hypothesis.improve.by": 0.05})
    assert place.testigo("amend", "--json", "--because", "a smaller gain is worth it too").code == 0
    written = place.testigo("dossier", "--json").document
    assert (
        "comparison: the campaign was amended after its last comparison; `testigo run` compares by what holds now"
        in written["missing"]
    ), written["missing"]
    verified = whole.testigo("verify", dossier, "--no-control", "--json")
    assert verified.document["ok"], verified.document["faults"]
    assert place.testigo("run", "--json").code == 0
    verified = whole.testigo("verify", dossier, "--no-control", "--json")
    assert verified.document["ok"], verified.document["faults"]
    assert "the statistics of validation, computed again" in verified.document["checked"]


def test_rows_that_changed_after_a_run_are_a_change_of_the_campaign(place: Place) -> None:
    before = place.events()
    with (place.folder / "orders.jsonl").open("a") as file:
        row = {"id": "new", "email": "We want 3 pens.", "order": "pens: 3", "customer": "c99", "domain": "shop"}
        file.write(json.dumps(row) + "\n")
    refused = place.testigo("run", "--json")
    assert refused.code == 2
    assert "content of the corpus: " in refused.problem["found"]
    runs = [kinds.RUN_PLANNED, kinds.RUN_STARTED, kinds.RUN_ENDED]
    assert [event for event in place.events() if event.kind in runs] == [e for e in before if e.kind in runs]
    again = place.testigo("open-test", "--json", "--yes", "--because", "final")
    assert "content of the corpus: " in again.problem["found"], "nor may the test be opened on other rows"


def test_one_flipped_byte_of_the_base_is_a_change_of_the_campaign(place: Place) -> None:  # C54
    import os

    weights = place.folder / "llama" / "model.safetensors"
    kept = weights.stat()
    content = bytearray(weights.read_bytes())
    content[-3] ^= 1
    weights.write_bytes(content)
    os.utime(weights, ns=(kept.st_atime_ns, kept.st_mtime_ns))
    refused = place.testigo("run", "--json")
    assert refused.code == 2
    assert "content of the base: " in refused.problem["found"]


def test_a_base_that_was_only_touched_is_the_same(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:  # C54
    monkeypatch.setattr(subprocess, "Popen", _no_process)
    before = place.events()
    for path in (place.folder / "llama").iterdir():
        path.touch()
    assert place.testigo("run", "--json").code == 0
    assert place.events() == before


def test_a_gate_that_stops_ends_with_code_1_before_any_compute_where_it_can(
    finished: Finished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = finished.piloted.copy(tmp_path / "stopped")
    monkeypatch.setattr(subprocess, "Popen", _no_process)
    (place.folder / "own_rules.py").write_text(OWN_RULE)
    place.change({"rules": ["own_rules.py"]})
    stopped = place.testigo("run", "--json")
    assert stopped.code == 1, stopped
    (problem,) = stopped.document["problems"]
    assert problem["expected"] == "gate X901 too-few-rows to pass"
    assert problem["found"] == "36 training rows"
    told = place.testigo("status", "--json").document
    assert {"campaign": "tiny", "state": "gate-failed", "runs": []}.items() <= told.items()
    assert place.events(kinds.RUN_PLANNED) == ()


def test_a_waiver_with_a_reason_lets_a_finding_pass_and_stays_in_the_ledger(
    finished: Finished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = finished.piloted.copy(tmp_path / "waived")
    monkeypatch.setattr(subprocess, "Popen", _no_process)
    (evidence,) = place.workspace.glob("pilot/*/evidence.json")
    kept = evidence.read_text()
    evidence.write_text(kept.replace('"training_mode_during": false', '"training_mode_during": true'))
    assert evidence.read_text() != kept
    place.change({"waive": {"V101": "the noise is known and small"}})
    passed = place.testigo("pilot", "--json")
    assert passed.code == 0, passed.err
    assert [f["code"] for f in passed.document["findings"] if f["severity"] != "note"] == ["V101"]
    assert passed.document["waived"] == {"V101": "the noise is known and small"}
    verdicts = {row["phase"]: row["verdict"] for row in passed.document["phases"]}
    assert verdicts["validation"] == "waived"
    waived = [event.body for event in place.events(kinds.GATE_WAIVED)]
    assert waived == [{"code": "V101", "reason": "the noise is known and small"}]
    assert place.testigo("status", "--json").document["state"] == "planned"


OWN_RULE = '''
from testigo.gates.data import DataEvidence
from testigo.rules import Finding, Passed, found, passed, rule


@rule("X901", "too-few-rows", "stop", phase="data")
def enough_rows(evidence: DataEvidence, at_least: int = 1000) -> Finding | Passed:
    """There are enough rows.

    Why it matters: we were bitten by this before.

    What to do: collect more.

    Source: our own.
    """
    n = evidence.n_rows["train"]
    return passed(f"{n} training rows") if n >= at_least else found(f"{n} training rows")
'''


def _register(place: Place) -> str:
    from testigo.campaign import load
    from testigo.conductor.opening import opened

    with opened(load(place.file), place.workspace, Silent()) as grounds:
        return grounds.register()


def _no_process(*arguments: Any, **options: Any) -> None:
    raise AssertionError(f"a process was started: {arguments}")
