"""Each planted error trains without an exception and is named; its healthy twin, of the same parts, is silent."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import piloted
import pytest
from shop import Workshop

import testigo
from silent_errors import CASES, Case
from testigo.disk import read_lines

# What a library warns of is no exception: with these faults users' trainings went on.
pytestmark = pytest.mark.filterwarnings("ignore")


WEATHER = ("M102", "M111")
"""How fast this machine is at the moment is no part of a case."""


def codes(findings: Any) -> set[str]:
    return {finding.code for finding in findings}


def alarms(findings: Any) -> list[tuple[str, str]]:
    told = [(finding.code, finding.observed) for finding in findings if finding.severity != "note"]
    return [(code, observed) for code, observed in told if code not in WEATHER]


def train(trainer: Any) -> None:
    trainer.train(resume_from_checkpoint=trainer.args.resume_from_checkpoint)


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.loop != "own" and case.by == "pilot"], ids=lambda c: c.id
)
def test_the_pilot_names_the_fault_and_passes_its_twin(case: Case, tmp_path: Path) -> None:
    sick, healthy = (case.build(Workshop(tmp_path / word), word == "sick") for word in ("sick", "healthy"))

    found, silent = testigo.pilot(sick), testigo.pilot(healthy)
    train(sick)  # without an exception: nobody but the pilot would have told

    assert set(case.codes) <= codes(found.findings), found.table()
    assert alarms(silent.findings) == [], silent.table()
    assert not set(case.codes) & codes(silent.findings), silent.table()
    assert not [one for one in silent.not_checked if "could not be measured" in one.why], silent.table()


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.loop != "own" and case.by == "watch"], ids=lambda c: c.id
)
def test_the_watch_names_the_fault_and_passes_its_twin(case: Case, tmp_path: Path) -> None:
    found = {}
    for word in ("sick", "healthy"):
        trainer, watch = case.build(Workshop(tmp_path / word), word == "sick"), testigo.Watch()
        trainer.add_callback(watch)
        train(trainer)
        found[word] = [finding for _, finding in watch.findings]

    assert set(case.codes) <= codes(found["sick"]), found["sick"]
    assert alarms(found["healthy"]) == []
    assert not set(case.codes) & codes(found["healthy"])


@pytest.fixture(scope="module")
def bases(tiny: Any) -> None:
    """A base that guesses about evenly."""
    from tiny import save_base

    save_base(tiny.folder / "even-llama", "llama", seed=1)


@pytest.fixture(scope="module")
def passes(tiny: Any, bases: None, tmp_path_factory: pytest.TempPathFactory) -> Callable[[dict[str, Any]], Any]:
    """The verdict of a campaign into which nothing was planted; each is piloted once."""
    known: dict[str, Any] = {}

    def verdict(changes: dict[str, Any]) -> Any:
        key = json.dumps(changes, sort_keys=True)
        if key not in known:
            with pytest.MonkeyPatch.context() as patch:
                piloted.in_this_process(patch)
                known[key] = piloted.pilot(tiny, tmp_path_factory.mktemp("healthy"), changes)
        return known[key]

    return verdict


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.loop == "own" and case.by == "pilot"], ids=lambda c: c.id
)
def test_a_campaigns_pilot_names_the_fault_and_passes_its_twin(
    case: Case, tiny: Any, passes: Callable[[dict[str, Any]], Any], tmp_path: Path
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        piloted.in_this_process(patch)
        changes = case.build(patch)
        found = piloted.pilot(tiny, tmp_path / "pilot", changes)
        short = {"training.updates": 2, "training.validate_every": 2}
        state = piloted.train(tiny, tmp_path / "run", {**changes, **short})  # without an exception
    healthy = passes(changes)

    assert set(case.codes) <= codes(found.findings), found.findings
    assert alarms(healthy.findings) == []
    assert not set(case.codes) & codes(healthy.findings), "not even as a note"
    assert state == ("diverged" if case.codes == ("F101",) else "completed")


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.loop == "own" and case.by == "watch"], ids=lambda c: c.id
)
def test_a_runs_watch_names_the_fault_and_passes_its_twin(case: Case, tiny: Any, bases: None, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        changes = case.build(patch)
        piloted.train(tiny, tmp_path / "sick", changes)  # without an exception
    piloted.train(tiny, tmp_path / "healthy", changes)

    found, silent = (_told(tmp_path / word) for word in ("sick", "healthy"))
    assert set(case.codes) <= {line["code"] for line in found}, found
    assert silent == []


def _told(run: Path) -> list[dict[str, Any]]:
    return read_lines(run / "findings.jsonl")
