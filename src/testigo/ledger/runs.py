"""Runs, folded from the events: the state machine in one table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from testigo.errors import LedgerError
from testigo.ledger import kinds
from testigo.ledger.event import Event
from testigo.ledger.process import ProcessMark

END_STATES: Final = (
    "completed",
    "stopped-early",
    "diverged",
    "out-of-memory",
    "gate-failed",
    "interrupted",
    "invalid",
)
STATES: Final = ("planned", "running", *END_STATES)

TRANSITIONS: Final[Mapping[str, frozenset[str]]] = {
    "planned": frozenset({"running"}),
    "running": frozenset(END_STATES),
    "interrupted": frozenset({"running", "invalid"}),  # the only end that goes on, as a new attempt of the same run
    "completed": frozenset({"invalid"}),
    "stopped-early": frozenset({"invalid"}),
    "diverged": frozenset({"invalid"}),
    "out-of-memory": frozenset({"invalid"}),
    "gate-failed": frozenset({"invalid"}),
    "invalid": frozenset(),
}


@dataclass(frozen=True)
class Run:
    """One run as the ledger knows it.

    `updates` is the last known count; `seconds` adds all attempts; `previous_state` is what a run was before it was
    declared invalid. `defines` is what its id was made from.
    """

    id: str
    variant: str
    seed: int
    state: str
    cause: str = ""
    updates: int = 0
    attempts: int = 0
    seconds: float = 0.0
    previous_state: str | None = None
    process: ProcessMark | None = None
    defines: dict[str, Any] = field(default_factory=dict)


def fold(events: Iterable[Event]) -> dict[str, Run]:
    """The runs after these events, in the order in which they were planned."""
    runs: dict[str, Run] = {}
    for event in events:
        if event.run is None or event.kind not in kinds.RUN_STATE_KINDS:
            continue
        try:
            if event.kind == kinds.RUN_PLANNED:
                runs.setdefault(event.run, _planned(event.run, event.body))
            elif event.run in runs:
                runs[event.run] = _after(runs[event.run], event)
        except (KeyError, TypeError) as error:
            raise LedgerError(
                expected="an event about a run as Testigo wrote it",
                found=f"a body without a right {error}",
                where=f"event {event.number} ({event.kind}, {event.time})",
                action="run `testigo ledger verify`, and restore the ledger from a copy",
            ) from error
    return runs


def _planned(run: str, body: Mapping[str, Any]) -> Run:
    return Run(run, body["variant"], body["seed"], "planned", defines=body["defines"])


def _after(run: Run, event: Event) -> Run:
    body = event.body
    if event.kind == kinds.RUN_STARTED:
        mark = ProcessMark(body["host"], body["boot"], body["pid"], body["started"])
        return replace(run, state="running", cause="", attempts=body["attempt"], process=mark)
    if event.kind == kinds.RUN_INVALIDATED:
        return replace(run, state="invalid", previous_state=run.state, cause=body["reason"])
    return replace(
        run,
        state=body["state"],
        cause=body["cause"],
        updates=run.updates if body["updates"] is None else body["updates"],
        seconds=run.seconds + (body["seconds"] or 0.0),
        process=None,
    )


def check_transition(run: Run, state: str) -> None:
    """Raise LedgerError unless the run may go from its state to this one."""
    if state not in STATES:
        raise LedgerError(
            expected=f"one of {', '.join(STATES)}",
            found=repr(state),
            where=f"run {run.id}",
            action="name one of these states",
        )
    allowed = TRANSITIONS[run.state]
    if state in allowed:
        return
    ways = ", ".join(sorted(allowed)) or "nothing else"
    raise LedgerError(
        expected=f"a run that may become {state} (from {run.state} a run becomes {ways})",
        found=f"the run is {run.state}",
        where=f"run {run.id}",
        action=_advice(run.state, state),
    )


def _advice(old: str, new: str) -> str:
    if old == "running" and new == "running":
        return "wait for the process that works on it, or end that process and start again"
    if new == "running":
        return "make a new variant: only an interrupted run goes on"
    return "look at the run with `testigo status`"


def known(runs: Mapping[str, Run], run: str) -> Run:
    """The run of this id. Raises LedgerError when it was never planned."""
    if run in runs:
        return runs[run]
    raise LedgerError(
        expected="a run that the ledger knows",
        found=f"no run {run!r}; known are {', '.join(runs) or 'none yet'}",
        where="the ledger",
        action="give one of these ids, or plan the run first",
    )


def campaign_state(states: Mapping[str, str], events: Iterable[Event]) -> str:
    """One word for a whole campaign: the liveliest of its runs' states, or how far it came before the first.

    Parameters
    ----------
    states
        Of the recorded runs by their ids, as they are seen now. Those that an amendment took out of the plan do not
        count.
    """
    events = tuple(events)
    body_of = {event.kind: event.body for event in events}
    plans = [e.body["runs"] for e in events if e.kind in kinds.FREEZES and "runs" in e.body]
    recorded = {state for run, state in states.items() if not plans or run in plans[-1]}
    for state in ("running", "interrupted", "planned"):
        if state in recorded:
            return state
    if recorded:  # between two runs nothing runs, and the campaign is not at its end
        return "completed" if {kinds.COMPARED, kinds.DOSSIER_WRITTEN} & body_of.keys() else "planned"
    if kinds.PILOT_FINISHED in body_of:
        return "planned" if body_of[kinds.PILOT_FINISHED].get("ok", True) else "gate-failed"
    return "planned" if kinds.CAMPAIGN_REGISTERED in body_of else "new"
