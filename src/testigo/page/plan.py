"""What is still to be done, and how long it will take at the speed that was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from testigo.campaign import Campaign, planned_runs
from testigo.dossier.files import real
from testigo.dossier.language import _
from testigo.ledger import Run, kinds
from testigo.page.site import Site
from testigo.page.steps import Pace, Steps, median
from testigo.training.order import Order

WENT_WELL = ("completed", "stopped-early")
_OPEN = ("planned", "running", "interrupted")


@dataclass(frozen=True)
class Work:
    """One run that the campaign asks for. `run` is None while the ledger does not know it."""

    variant: str
    seed: int
    n_updates: int | None
    n_validations: int
    run: Run | None


@dataclass(frozen=True)
class Speed:
    """Seconds of each piece of work as they were measured, None where nothing was."""

    update: float | None
    validation: float | None
    evaluation: float | None
    source: str


@dataclass(frozen=True)
class Remaining:
    """Seconds of all that is left, at most; None when they are not known, and why in `basis`."""

    seconds: float | None
    basis: str


def work_of(site: Site) -> tuple[Work, ...]:
    """Every run: those of the ledger in their order, then those that the campaign file plans beside them."""
    campaign, runs = site.campaign, site.runs
    if campaign is None:
        return tuple(Work(run.variant, run.seed, None, 0, run) for run in runs)
    n_rows = site.corpus.counts.get("train", 0) if site.corpus else 0
    planned = {(one.variant, one.seed): one.campaign for one in planned_runs(campaign)}
    works = [_work(run.variant, run.seed, planned.get((run.variant, run.seed)), n_rows, run) for run in runs]
    known = {(run.variant, run.seed) for run in runs}
    works += [_work(*key, own, n_rows, None) for key, own in planned.items() if key not in known]
    return tuple(works)


def speed_of(site: Site) -> Speed:
    """From the runs' own steps, and before the first of them from the pilot."""
    paces = [site.pace(run.id) for run in site.runs[-8:] if run.attempts]
    update = median([one.seconds_per_update for one in paces])
    validation = median([one.seconds_per_validation for one in paces])
    source = _("from the runs' own updates")
    phases = {phase.phase: phase.seconds for phase in site.gates.phases} if site.gates else {}
    if update is None:
        update, source = phases.get("update-2") or phases.get("update"), _("from the pilot's second update")
    if validation is None:
        validation = phases.get("validation")
    name = site.current("baseline", kinds.BASELINE_EVALUATED)
    meta = site.document("baseline", name, "predictions", "validation.meta.json") if name else {}
    return Speed(update, validation, real(meta.get("seconds")), source)


def left_of(work: Work, steps: Steps | Pace | None, speed: Speed, *, evaluated: bool) -> float | None:
    """Seconds that a run still takes, its own evaluation included; None when they are not known."""
    state = work.run.state if work.run else "planned"
    evaluation = 0.0 if evaluated else speed.evaluation or 0.0
    if state not in _OPEN:
        return evaluation if state in WENT_WELL else 0.0
    own = steps.seconds_per_update if steps else None
    update = own if own is not None else speed.update
    if update is None or work.n_updates is None:
        return None
    done = steps.last_update if steps else 0
    share_left = max(0.0, 1 - done / work.n_updates) if work.n_updates else 0.0
    validations = (speed.validation or 0.0) * work.n_validations * share_left
    return update * max(0, work.n_updates - done) + validations + evaluation


def remaining(seconds: Sequence[float | None], speed: Speed) -> Remaining:
    """The sum over all runs, with what it rests on."""
    if any(one is None for one in seconds):
        why = _("no update was timed yet") if speed.update is None else _("the campaign file cannot be read")
        return Remaining(None, why)
    total = sum(filter(None, seconds))
    return Remaining(total, speed.source if total else _("nothing is left to train or to evaluate"))


def _work(variant: str, seed: int, campaign: Campaign | None, n_rows: int, run: Run | None) -> Work:
    if campaign is None or (campaign.training.updates is None and not n_rows):
        return Work(variant, seed, None, 0, run)
    training = campaign.training
    n_updates = Order.planned(
        n_rows=n_rows,
        microbatch=training.microbatch,
        accumulation=training.accumulation,
        replicas=campaign.machine.processes,
        seed=seed,
        updates=training.updates,
        epochs=training.epochs,
    ).n_updates
    every = training.validate_every or n_updates
    return Work(variant, seed, n_updates, -(-n_updates // every), run)
