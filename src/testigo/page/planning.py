"""What was planned and what it came to: the rental plan, the memory of each phase, and the runs' real times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from testigo.dossier.files import real
from testigo.dossier.record import Phase
from testigo.errors import Problem
from testigo.ledger import kinds
from testigo.page.jobs import Job
from testigo.page.reading import stamp
from testigo.page.site import Site
from testigo.rental import Held, NotMeasured, held_in, of_all


@dataclass(frozen=True)
class PieceRow:
    """A part of the campaign: planned without the margin, and what it took [s]; None where nothing tells."""

    name: str
    planned: float
    real: float | None
    arithmetic: str
    ended: bool


@dataclass(frozen=True)
class PlanPage:
    """Plan against real, and sizing. What is not known yet says so in `waiting` or in problems."""

    pieces: tuple[PieceRow, ...]
    after_the_pilot: tuple[float, float] | None
    margin: float | None
    packages: tuple[Mapping[str, Any], ...]
    currency: str
    waiting: bool
    problems: tuple[Problem, ...]
    sizing: Mapping[str, Any] | None
    sizing_waiting: bool
    sizing_problems: tuple[Problem, ...]
    phases: tuple[Phase, ...]
    sized_kinds: tuple[str, ...]


def plan_page(site: Site) -> PlanPage:
    """`testigo plan` and `testigo size` answer; the ledger says what was real."""
    job = site.jobs.start("plan", _state(site), ["plan", str(site.workspace.root.resolve())])
    document = job.answer.document if job.answer else {}
    sized = site.jobs.get("size")
    sizing = sized.answer.document if sized and sized.answer and sized.answer.ok else None
    held = _held(site)
    return PlanPage(
        pieces=tuple(_piece(site, one) for one in held),
        after_the_pilot=of_all(held),
        margin=real(document.get("margin")),
        packages=tuple(document.get("packages", ())),
        currency=str(document.get("currency", "")),
        waiting=job.answer is None,
        problems=_problems(job),
        sizing=sizing,
        sizing_waiting=sized is not None and sized.answer is None,
        sizing_problems=_problems(sized),
        phases=tuple(site.gates.phases) if site.gates else (),
        sized_kinds=_kinds(sizing),
    )


def _problems(job: Job | None) -> tuple[Problem, ...]:
    return job.answer.problems if job and job.answer else ()


def _kinds(sizing: Mapping[str, Any] | None) -> tuple[str, ...]:
    phases = sizing.get("phases", ()) if sizing else ()
    return tuple(dict.fromkeys(kind for phase in phases for kind in phase.get("by_kind", {})))


def _state(site: Site) -> str:
    """The plan follows from the file, the pilot, the baseline, and from runs once they have ended."""
    path = site.workspace.campaign_path
    ended = sum(run.state != "running" for run in site.runs if run.attempts)
    pilot, baseline = site.current("pilot", kinds.PILOT_FINISHED), site.current("baseline", kinds.BASELINE_EVALUATED)
    return f"{stamp(path) if path else '-'} {pilot} {baseline} {ended}"


def _held(site: Site) -> tuple[Held, ...]:
    """As `testigo plan` and the dossier tell it; empty while nothing was measured."""
    if site.campaign is None:
        return ()
    try:
        return held_in(site.workspace.root, site.campaign, site.events)
    except (NotMeasured, OSError, ValueError, KeyError, TypeError):
        return ()  # the plan's own problems are told beside it


def _piece(site: Site, held: Held) -> PieceRow:
    """A run that goes on stands with what it took so far, which counts in no total."""
    for run in site.runs:
        if run.state == "running" and held.name == f"{run.variant}, seed {run.seed}":
            so_far = max(site.steps(run.id).seconds, run.seconds) or None
            return PieceRow(held.name, held.planned_seconds, so_far, held.arithmetic, ended=False)
    return PieceRow(held.name, held.planned_seconds, held.real_seconds, held.arithmetic, ended=True)
