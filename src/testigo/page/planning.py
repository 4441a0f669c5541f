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

_WENT_ON = ("completed", "stopped-early", "diverged", "out-of-memory", "invalid", "interrupted", "running")


@dataclass(frozen=True)
class PieceRow:
    """A part of the campaign: what the plan says it takes, and what it took [s]; None where nothing tells."""

    name: str
    planned: float
    real: float | None
    arithmetic: str
    ended: bool


@dataclass(frozen=True)
class PlanPage:
    """Plan against real, and sizing. What is not known yet says so in `waiting` or in problems."""

    pieces: tuple[PieceRow, ...]
    planned: float
    real: float
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
    pieces = tuple(_piece(site, piece) for piece in document.get("pieces", ()))
    return PlanPage(
        pieces=pieces,
        planned=float(document.get("seconds", 0.0)),
        real=sum(piece.real or 0.0 for piece in pieces),
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


def _piece(site: Site, piece: Mapping[str, Any]) -> PieceRow:
    name, run_name = str(piece.get("name", "")), str(piece.get("run", ""))
    planned = float(piece.get("seconds", 0.0))
    for run in site.runs:
        if run_name == f"{run.variant}, seed {run.seed}" and run.state in _WENT_ON:
            ended = run.state != "running"
            if name == run_name:
                took = run.seconds or (0.0 if ended else site.steps(run.id).seconds)
            else:  # its evaluation, a piece of its own
                told = site.document(*site.folder_of(run.id), "predictions", "validation.meta.json")
                took = real(told.get("seconds")) or 0.0
            return PieceRow(name, planned, took or None, str(piece.get("arithmetic", "")), ended)
    return PieceRow(name, planned, _shared(site, name), str(piece.get("arithmetic", "")), ended=True)


def _shared(site: Site, name: str) -> float | None:
    if name == "pilot" and site.gates:
        return sum(phase.seconds or 0.0 for phase in site.gates.phases) or None
    if name == "baseline":
        folder = site.current("baseline", kinds.BASELINE_EVALUATED)
        told = site.document("baseline", folder, "predictions", "validation.meta.json") if folder else {}
        return real(told.get("seconds"))
    return None
