"""The plan in a calendar, and the plan held against what the ledger saw."""

from __future__ import annotations

import itertools
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from icalendar import Calendar

from testigo.ledger import Event, Ledger, kinds
from testigo.rental import Held, Measured, RunWork, held_against, of_all, plan_rental, told_difference
from testigo.rental.calendar import calendar

PLAN = plan_rental(
    Measured(10, 60, 2, 30, 45, 600), [RunWork("control", 0, 100, 2), RunWork("half", 0, 100, 2)], baseline_rows=50
)
START = datetime(2026, 12, 1, 9, tzinfo=UTC)


def test_the_calendar_has_each_piece_after_the_one_before() -> None:
    read = Calendar.from_ical(calendar(PLAN, campaign="orders", start=START, now=START))
    events = read.walk("VEVENT")
    assert [str(event["summary"]) for event in events] == [f"orders: {piece.name}" for piece in PLAN.pieces]
    assert events[0].decoded("dtstart") == START
    for before, after in itertools.pairwise(events):
        assert before.decoded("dtend") == after.decoded("dtstart")
    whole = (events[-1].decoded("dtend") - START).total_seconds()
    assert whole == pytest.approx(PLAN.seconds, abs=len(events))


def test_a_newer_calendar_moves_the_pieces_instead_of_adding_others() -> None:
    ids = [
        [str(event["uid"]) for event in Calendar.from_ical(calendar(PLAN, campaign=name, start=START)).walk("VEVENT")]
        for name in ("orders", "orders", "letters")
    ]
    assert ids[0] == ids[1]
    assert len(set(ids[0])) == len(PLAN.pieces)
    assert not set(ids[0]) & set(ids[2])


def at(events: list[Event], second: float, kind: str, run: str | None = None, **body: Any) -> None:
    time = f"2026-11-30T10:00:{second:09.6f}+00:00"
    events.append(Event(len(events) + 1, time, kind, run, body, "", ""))


def test_each_piece_stands_beside_its_real_time(tmp_path: Path) -> None:
    events: list[Event] = []
    at(events, 0, kinds.RUN_PLANNED, "c", variant="control", seed=0)
    at(events, 1, kinds.RUN_STARTED, "c")
    at(events, 4, kinds.RUN_ENDED, "c", state="interrupted")
    at(events, 20, kinds.RUN_STARTED, "c")
    at(events, 26, kinds.RUN_ENDED, "c", state="completed")
    at(events, 28, kinds.RUN_EVALUATED, "c", split="validation")
    at(events, 29, kinds.COMPARED)
    at(events, 33, kinds.EXPORTED)
    baseline = tmp_path / "baseline" / "b" / "predictions"
    baseline.mkdir(parents=True)
    (baseline / "validation.meta.json").write_text('{"seconds": 90.0}', encoding="utf-8")
    pilot = tmp_path / "pilot" / "p"
    pilot.mkdir(parents=True)
    (pilot / "phases.json").write_text(json.dumps({"phases": [{"seconds": 5}, {"seconds": 7.5}]}), encoding="utf-8")
    held = {one.name: one.real_seconds for one in held_against(PLAN, events, tmp_path)}
    assert held == {
        "pilot": 12.5,
        "baseline": 90.0,
        "control, seed 0": pytest.approx(9),
        "evaluation: control, seed 0": pytest.approx(2),
        "half, seed 0": None,
        "evaluation: half, seed 0": None,
        "sealed test": None,
        "export and fresh reading": pytest.approx(4),
    }


def test_no_time_is_negative_where_the_clock_was_set_back(tmp_path: Path) -> None:
    """What a run, or an outputs' own file, noted of its seconds stands in; where nothing did, nothing is said."""
    events: list[Event] = []
    at(events, 0, kinds.RUN_PLANNED, "c", variant="control", seed=0)
    at(events, 50, kinds.RUN_STARTED, "c")
    at(events, 1, kinds.RUN_ENDED, "c", state="interrupted", seconds=3.0)  # set back under the run
    at(events, 2, kinds.RUN_STARTED, "c")
    at(events, 8, kinds.RUN_ENDED, "c", state="completed", seconds=5.0)
    at(events, 4, kinds.RUN_EVALUATED, "c", split="validation")  # and again
    at(events, 20, kinds.COMPARED)
    at(events, 10, kinds.EXPORTED)
    outputs = tmp_path / "runs" / "c" / "predictions"
    outputs.mkdir(parents=True)
    (outputs / "validation.meta.json").write_text('{"seconds": 7.0}', encoding="utf-8")
    held = {one.name: one.real_seconds for one in held_against(PLAN, events, tmp_path)}
    assert held["control, seed 0"] == pytest.approx(3 + 6)
    assert held["evaluation: control, seed 0"] == 7.0
    assert held["export and fresh reading"] is None


def test_an_evaluation_after_a_pause_counts_its_own_seconds(tmp_path: Path) -> None:
    events: list[Event] = []
    at(events, 0, kinds.RUN_PLANNED, "c", variant="control", seed=0)
    at(events, 1, kinds.RUN_STARTED, "c")
    at(events, 4, kinds.RUN_ENDED, "c")
    at(events, 30, kinds.NOTE)
    at(events, 59, kinds.RUN_EVALUATED, "c", split="validation")
    folder = tmp_path / "runs" / "c" / "predictions"
    folder.mkdir(parents=True)
    (folder / "validation.meta.json").write_text('{"seconds": 3.0}', encoding="utf-8")
    held = {one.name: one.real_seconds for one in held_against(PLAN, events, tmp_path)}
    assert held["evaluation: control, seed 0"] == 3.0


def test_the_rest_is_what_comes_after_pilot_and_baseline() -> None:
    held = [Held("pilot", 1, 5), Held("baseline", 1, 5), Held("control, seed 0", 10, 8), Held("half", 10, None)]
    assert of_all(held) == (10, 8)
    assert of_all(held[:2]) is None


def test_a_run_that_was_interrupted_is_not_held_against_the_plan_of_a_whole_one(tmp_path: Path) -> None:
    events: list[Event] = []
    at(events, 0, kinds.RUN_PLANNED, "c", variant="control", seed=0)
    at(events, 1, kinds.RUN_STARTED, "c")
    at(events, 4, kinds.RUN_ENDED, "c", state="interrupted")
    assert of_all(held_against(PLAN, events, tmp_path)) is None


@pytest.mark.parametrize(
    ("real", "words"),
    [(118.0, "18 % longer than planned"), (85.0, "15 % shorter than planned"), (100.2, "as long as planned")],
)
def test_longer_and_shorter_are_said_in_words(real: float, words: str) -> None:
    assert told_difference(100.0, real) == words


def test_a_ledger_without_runs_has_no_real_times(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "ledger.sqlite") as ledger:
        assert all(one.real_seconds is None for one in held_against(PLAN, ledger.events(), tmp_path))
