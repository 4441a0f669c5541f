from __future__ import annotations

import itertools
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from testigo.errors import LedgerError
from testigo.ledger import END_STATES, STATES, TRANSITIONS, Ledger, Run, kinds, process_is_alive, this_process


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.open(tmp_path / "ledger.sqlite")


def planned(ledger: Ledger, id: str = "control-s0-1a") -> str:
    ledger.plan_run(id, variant="control", seed=0, defines={"training": {"updates": 5}})
    return id


def bring_to(ledger: Ledger, id: str, state: str) -> None:
    if state == "planned":
        return
    ledger.start_run(id)
    if state != "running":
        ledger.end_run(id, state=state, cause="because", updates=3, seconds=1.5)


def test_a_run_is_recorded_before_it_starts_and_goes_through_its_life(ledger: Ledger) -> None:
    id = planned(ledger)
    assert ledger.runs() == (Run(id, "control", 0, "planned", defines={"training": {"updates": 5}}),)
    assert ledger.start_run(id) == 1
    assert ledger.runs()[0].state == "running"
    ledger.end_run(id, state="interrupted", cause="SIGTERM", updates=4, seconds=10.0)
    assert ledger.start_run(id) == 2
    assert ledger.runs()[0].cause == ""
    ended = ledger.end_run(id, state="completed", updates=5, seconds=2.5)
    assert (ended.state, ended.updates, ended.attempts, ended.seconds) == ("completed", 5, 2, 12.5)
    assert [event.kind for event in ledger.events(run=id)] == [
        "run-planned", "run-started", "run-ended", "run-started", "run-ended",
    ]  # fmt: skip
    assert ledger.verify() == ()


def test_runs_keep_the_order_in_which_they_were_planned(ledger: Ledger) -> None:
    for name in ("control-s0", "b-s0", "a-s0"):
        planned(ledger, name)
    bring_to(ledger, "a-s0", "diverged")
    assert [run.id for run in ledger.runs()] == ["control-s0", "b-s0", "a-s0"]


def test_planning_the_same_run_again_writes_nothing_and_another_under_its_id_is_refused(ledger: Ledger) -> None:
    id = planned(ledger)
    bring_to(ledger, id, "completed")
    before = ledger.head()
    assert ledger.plan_run(id, variant="control", seed=0, defines={"training": {"updates": 5}}).state == "completed"
    assert ledger.head() == before
    for changed in ({"variant": "fast"}, {"seed": 1}, {"defines": {"training": {"updates": 6}}}):
        given = {"variant": "control", "seed": 0, "defines": {"training": {"updates": 5}}, **changed}
        with pytest.raises(LedgerError, match="its own id"):
            ledger.plan_run(id, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(("old", "new"), list(itertools.product(STATES, STATES)))
def test_only_the_transitions_of_the_table_are_possible(ledger: Ledger, old: str, new: str) -> None:
    id = planned(ledger)
    bring_to(ledger, id, old)

    def change() -> object:
        if new == "running":
            return ledger.start_run(id)
        if new == "invalid" and old != "running":
            return ledger.invalidate_run(id, reason="wrong rows")
        return ledger.end_run(id, state=new)

    before = ledger.head()
    if new in TRANSITIONS[old]:
        change()
        assert ledger.runs()[0].state == new
    else:
        with pytest.raises(LedgerError):
            change()
        assert ledger.head() == before


def test_only_an_interrupted_run_goes_on() -> None:
    assert [state for state in END_STATES if "running" in TRANSITIONS[state]] == ["interrupted"]


@pytest.mark.parametrize("state", [state for state in END_STATES if state != "invalid"])
def test_an_ended_run_is_declared_invalid_by_hand_and_its_earlier_state_stays_visible(
    ledger: Ledger, state: str
) -> None:
    id = planned(ledger)
    bring_to(ledger, id, state)
    run = ledger.invalidate_run(id, reason="  the rows of May were wrong ")
    assert (run.state, run.previous_state, run.cause) == ("invalid", state, "the rows of May were wrong")
    assert run.updates == 3
    with pytest.raises(LedgerError):
        ledger.start_run(id)


def test_declaring_invalid_needs_words(ledger: Ledger) -> None:
    id = planned(ledger)
    bring_to(ledger, id, "completed")
    with pytest.raises(LedgerError, match="reason"):
        ledger.invalidate_run(id, reason=" ")


def test_an_unknown_run_and_an_unknown_state_are_named(ledger: Ledger) -> None:
    planned(ledger)
    with pytest.raises(LedgerError, match="control-s0-1a"):
        ledger.start_run("nobody")
    with pytest.raises(LedgerError, match="stopped-early"):
        ledger.end_run("control-s0-1a", state="finished")


def test_a_state_cannot_be_changed_past_the_methods_for_runs(ledger: Ledger) -> None:
    for kind in kinds.RUN_STATE_KINDS:
        with pytest.raises(LedgerError, match="plan_run"):
            ledger.append(kind, {}, run="x")


def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"], stdout=-1)


def test_a_killed_process_leaves_an_interrupted_run_and_a_living_one_is_left_alone(ledger: Ledger) -> None:
    with sleeper() as dying, sleeper() as living:
        for id, process in (("dead-s0", dying), ("alive-s0", living)):
            planned(ledger, id)
            ledger.start_run(id, pid=process.pid)
        assert ledger.mark_dead() == ()
        dying.kill()
        os.waitid(os.P_PID, dying.pid, os.WEXITED | os.WNOWAIT)  # a zombie now: nobody has fetched its end
        assert ledger.mark_dead(progress=lambda id: (7, 2.5)) == ("dead-s0",)
        dying.wait()
        assert ledger.mark_dead() == ()
        states = {run.id: run for run in ledger.runs()}
        living.kill()
    assert states["alive-s0"].state == "running"
    dead = states["dead-s0"]
    assert (dead.state, dead.updates, dead.seconds) == ("interrupted", 7, 2.5)
    assert str(dying.pid) in dead.cause
    assert ledger.mark_dead() == ("alive-s0",)
    assert ledger.start_run("dead-s0") == 2


def test_a_pid_that_was_given_to_another_process_is_not_the_run(ledger: Ledger) -> None:
    from dataclasses import replace

    mine = this_process()
    assert process_is_alive(mine) is True
    assert process_is_alive(replace(mine, started=(mine.started or 0) - 100)) is False
    assert process_is_alive(replace(mine, boot="another boot")) is False
    assert process_is_alive(replace(mine, started=None)) is False
    assert process_is_alive(replace(mine, host="elsewhere")) is None


def test_a_run_on_another_host_is_left_alone(ledger: Ledger) -> None:
    id = planned(ledger)
    ledger.start_run(id, pid=1, host=socket.gethostname() + "-b")
    assert ledger.mark_dead() == ()
    assert ledger.runs()[0].state == "running"


def test_a_process_that_was_gone_before_its_start_was_written_is_found_dead(ledger: Ledger) -> None:
    with sleeper() as process:
        process.kill()
    id = planned(ledger)
    ledger.start_run(id, pid=process.pid)
    assert ledger.mark_dead() == (id,)
