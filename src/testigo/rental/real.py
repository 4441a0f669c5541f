"""After the campaign: what each piece was planned to take, and what it took by the ledger's clock."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from testigo.campaign import Campaign
from testigo.ledger import Event, kinds
from testigo.rental.measuring import plan_in
from testigo.rental.plan import RentalPlan


@dataclass(frozen=True)
class Held:
    """One piece of the plan [s], without the margin; `real_seconds` is None while it was not done.

    `arithmetic` is how the planned time was reckoned, `run` the planned run that it belongs to.
    """

    name: str
    planned_seconds: float
    real_seconds: float | None
    arithmetic: str = ""
    run: str = ""


def held_in(root: Path, campaign: Campaign, events: Sequence[Event]) -> tuple[Held, ...]:
    """The plan that baseline and pilot alone gave, beside what the ledger saw: the one source of whoever tells it.

    Raises
    ------
    NotMeasured
        When there is no pilot or no baseline yet.
    """
    plan, _sources = plan_in(root, campaign, with_runs=False)
    return held_against(plan, events, root)


def held_against(plan: RentalPlan, events: Sequence[Event], root: Path) -> tuple[Held, ...]:
    """Each piece of a plan beside its real time, in the plan's order; a reserve has none."""
    real = dict(_real(events, root))
    return tuple(
        Held(piece.name, piece.measured_seconds, real.get(piece.name), piece.arithmetic, piece.run)
        for piece in plan.pieces
        if piece.kind != "reserve"
    )


def of_all(held: Iterable[Held]) -> tuple[float, float] | None:
    """Planned and real seconds of the pieces after the pilot that were done; None while there are none."""
    done = [
        (one.planned_seconds, one.real_seconds)
        for one in held
        if one.real_seconds is not None and one.name not in ("pilot", "baseline")
    ]
    return (sum(one for one, _ in done), sum(one for _, one in done)) if done else None


def told_difference(planned: float, real: float) -> str:
    """How much longer or shorter it took than planned, in words."""
    if planned <= 0:
        return "nothing was planned to hold it against"
    percent = round(100 * (real / planned - 1))
    if percent == 0:
        return "as long as planned"
    return f"{abs(percent)} % {'longer' if percent > 0 else 'shorter'} than planned"


def _real(events: Sequence[Event], root: Path) -> Iterable[tuple[str, float]]:
    """Seconds by the ledger's times; where the event before belongs to other work, by the piece's own record.

    So too where the clock was set back between two events.
    """
    names: dict[str, str] = {}
    began: dict[str, Event] = {}
    trained: dict[str, float] = {}
    before: Event | None = None
    for event in events:
        run = event.run or ""
        if event.kind == kinds.RUN_PLANNED:
            names[run] = f"{event.body.get('variant')}, seed {event.body.get('seed')}"
        elif event.kind == kinds.RUN_STARTED:
            began[run] = event
        elif event.kind == kinds.RUN_ENDED and run in began:
            own = _between(began.pop(run), event)
            own = _number(event.body.get("seconds")) if own is None else own
            trained[run] = trained.get(run, 0.0) + (own or 0.0)
            if event.body.get("state") != "interrupted":  # a part of a run is no piece to hold a plan against
                yield names.get(run, run), trained[run]
        elif event.kind == kinds.RUN_EVALUATED and event.body.get("split") == "validation":
            own = _meta_seconds(root / "runs" / run / "predictions")
            follows = before is not None and before.kind == kinds.RUN_ENDED and before.run == run
            if follows and before is not None:
                by_the_clock = _between(before, event)
                own = own if by_the_clock is None else by_the_clock
            if own is not None:
                yield f"evaluation: {names.get(run, run)}", own
        elif event.kind == kinds.EXPORTED and before is not None and before.kind == kinds.COMPARED:
            own = _between(before, event)
            if own is not None:
                yield "export and fresh reading", own
        before = event
    yield from _of_files(root)


def _of_files(root: Path) -> Iterable[tuple[str, float]]:
    """Baseline and pilot, whose events may follow a pause of days, by what they noted themselves."""
    metas = sorted(root.glob("baseline/*/predictions"), key=lambda path: path.stat().st_mtime)
    if metas and (seconds := _meta_seconds(metas[-1])) is not None:
        yield "baseline", seconds
    phases = sorted(root.glob("pilot/*/phases.json"), key=lambda path: path.stat().st_mtime)
    if phases:
        yield "pilot", sum(float(row.get("seconds") or 0.0) for row in _json(phases[-1]).get("phases", ()))


def _meta_seconds(folder: Path) -> float | None:
    return _number(_json(folder / "validation.meta.json").get("seconds"))


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _between(before: Event, after: Event) -> float | None:
    """Seconds from one event to a later one; None where the clock was set back in between."""
    seconds = (datetime.fromisoformat(str(after.time)) - datetime.fromisoformat(str(before.time))).total_seconds()
    return None if seconds < 0 else seconds
