"""What an invalid run, and what an amendment, takes with it: a comparison; and what leads on without a control."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Protocol

from testigo.ledger import Event, kinds

CONTROL = "control"
INVALID = "invalid"
_ENDED = ("diverged", "out-of-memory", "gate-failed", INVALID)


class Judged(Protocol):
    """What is asked of a run here."""

    @property
    def id(self) -> str:
        """Its id."""

    @property
    def variant(self) -> str:
        """Its variant, or `control`."""

    @property
    def seed(self) -> int:
        """Its seed."""

    @property
    def state(self) -> str:
        """Its state in the ledger."""

    @property
    def cause(self) -> str:
        """Why it ended so; the reason, where somebody declared it invalid."""


def withdrawn_by(comparison: Mapping[str, Any], runs: Iterable[Judged], named: object = "") -> tuple[str, ...]:
    """The invalid runs that a comparison rests on; empty while it stands.

    Parameters
    ----------
    comparison
        The document as it was written.
    runs
        As the ledger knows them now, in their planned order.
    named
        The run that was compared, where the document does not name it.
    """
    runs = tuple(runs)
    invalid = {run.id for run in runs if run.state == INVALID}
    used = [comparison.get("run") or named]
    balance = comparison.get("balance")
    if isinstance(balance, list):
        used += [entry.get("run") for entry in balance if isinstance(entry, Mapping) and _is_compared(entry)]
    else:
        used += _by_names(comparison, runs, used[0])
    return tuple(str(run) for run in dict.fromkeys(used) if run in invalid)


def superseded_by(split: str, events: Iterable[Event]) -> Event | None:
    """The amendment after which the last comparison on a split holds no longer; None while it does.

    It was made by another hypothesis then, or with runs that the campaign plans no longer. The next `testigo run`
    compares by what holds now; no result is ever shown under a promise that it was not judged by.
    """
    events = tuple(events)
    compared = [e for e in events if e.kind == kinds.COMPARED and e.body.get("split", "validation") == split]
    freezes = [event for event in events if event.kind in kinds.FREEZES]
    then = [event for event in freezes if compared and event.number < compared[-1].number]
    if not then or freezes[-1] is then[-1]:
        return None
    before, now = (_promise_of(event) for event in (then[-1], freezes[-1]))
    gone = before[1] - now[1] if now[1] else set()
    used = {
        event.run
        for event in events
        if event.kind == kinds.RUN_EVALUATED and event.body.get("split") == split and event.number < compared[-1].number
    }
    other = None not in (before[0], now[0]) and before[0] != now[0]
    return freezes[-1] if other or gone & used else None


def _promise_of(freeze: Event) -> tuple[object, set[str]]:
    frozen, runs = freeze.body.get("frozen"), freeze.body.get("runs")
    hypothesis = frozen.get("hypothesis") if isinstance(frozen, Mapping) else None
    return hypothesis, {str(run) for run in runs} if isinstance(runs, list) else set()


def _is_compared(entry: Mapping[str, Any]) -> bool:
    return entry.get("counted") == "compared"


def _by_names(comparison: Mapping[str, Any], runs: Iterable[Judged], named: object) -> list[str]:
    """Of a comparison without a balance: the seeds and the variants that it names, each by its last run."""
    last = {(run.variant, run.seed): run.id for run in runs}
    tuned = next((run.variant for run in runs if run.id == named), CONTROL)
    spread, variants = comparison.get("seeds"), comparison.get("variants")
    seeds = (spread.get("differences") or {}) if isinstance(spread, Mapping) else {}
    used = [id for (variant, seed), id in last.items() if variant == tuned and str(seed) in seeds]
    for name in variants if isinstance(variants, Mapping) else ():
        used += [last[key] for key in sorted(key for key in last if key[0] == name)[:1]]
    return used


def without_control(runs: Iterable[Judged]) -> str:
    """Why there is nothing to compare, in words: what became of each run of the control."""
    last = {run.seed: run for run in runs if run.variant == CONTROL}
    told = "; ".join(f"{run.id} is {run.state}" + (f" ({run.cause})" if run.cause else "") for run in last.values())
    return f"no valid run of the control is there: {told}" if told else "no run of the control ended well"


def way_on(runs: Iterable[Judged], planned: Collection[str], campaign: str) -> str:
    """The one action that leads to a run of the control, where none is there to be compared.

    Another start goes on with what waits or was interrupted; it never repeats a run that came to its end. So where
    every run of the control has, other runs must be planned.

    Parameters
    ----------
    planned
        Ids of the runs of the last freeze.
    campaign
        The campaign file as the user names it.
    """
    last = {run.seed: run for run in runs if run.variant == CONTROL}
    known = {run.id for run in runs}
    waits = any(run.state not in _ENDED for run in last.values())
    if not last or waits or any(id not in known for id in planned if id.startswith(f"{CONTROL}-")):
        return f"testigo run {campaign}"
    first = "put another seed under seeds" if any(run.state == INVALID for run in last.values()) else "mend the cause"
    return f'{first} in the campaign file, then: testigo run {campaign} --amend "…"'
