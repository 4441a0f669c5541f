"""What a workspace has measured so far, and the work that its campaign still means."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testigo.campaign import Campaign, PlannedRun, planned_runs
from testigo.counting import counted
from testigo.disk import read_lines
from testigo.rental.plan import Measured, RentalPlan, RunWork, plan_rental

FEW, MANY = 500, 2000


@dataclass(frozen=True)
class Sizes:
    """Rows of the splits, from the corpus that was built last."""

    train: int
    validation: int
    test: int


class NotMeasured(Exception):
    """Something that a plan needs is not there yet; `needs` are the commands that measure it: `baseline`, `pilot`."""

    def __init__(self, what: str, *needs: str) -> None:
        super().__init__(what)
        self.what, self.needs = what, needs


def sizes_in(root: Path) -> Sizes:
    """The rows of the last corpus. Raises NotMeasured when none was built."""
    manifests = _newest(root, "corpus/*/manifest.json")
    if not manifests:
        raise NotMeasured("what baseline and pilot measure", "baseline", "pilot")
    splits = _json(manifests[-1])["splits"]
    return Sizes(*(int(splits.get(name, {}).get("rows", 0)) for name in ("train", "validation", "test")))


def work_of(campaign: Campaign, sizes: Sizes) -> list[RunWork]:
    """Every run that the file plans, in its order."""
    return [_work(planned, sizes) for planned in planned_runs(campaign)]


def checkpoint_every(campaign: Campaign, updates: int) -> int:
    """The rule of `checkpoint: {every: auto}`; the training room, which says it too, would import torch."""
    every = campaign.training.checkpoint.every
    return every if isinstance(every, int) else 50 if updates < FEW else 200 if updates > MANY else 100


def plan_in(
    root: Path, campaign: Campaign, *, pilot: Path | None = None, with_runs: bool = True, **wanted: Any
) -> tuple[RentalPlan, dict[str, str]]:
    """The plan of a workspace by what was measured there, and where each number comes from.

    Parameters
    ----------
    pilot, with_runs
        As `measured_in` takes them.
    wanted
        What else `plan_rental` takes: days, price, margin.

    Raises
    ------
    NotMeasured
        When there is no pilot or no baseline yet.
    """
    sizes = sizes_in(root)
    measured, sources = measured_in(root, campaign, sizes, pilot=pilot, with_runs=with_runs)
    runs = work_of(campaign, sizes)
    plan = plan_rental(
        measured,
        runs,
        baseline_rows=sizes.validation,
        test_rows=sizes.test,
        checkpoint_every=min(checkpoint_every(campaign, runs[0].updates), runs[0].updates),
        **wanted,
    )
    return plan, sources


def _work(planned: PlannedRun, sizes: Sizes) -> RunWork:
    training, processes = planned.campaign.training, planned.campaign.machine.processes
    per_update = training.microbatch * training.accumulation * processes
    updates = training.updates or max(1, -(-int(sizes.train * (training.epochs or 1)) // per_update))
    validations = -(-updates // training.validate_every) if training.validate_every else 1
    every = checkpoint_every(planned.campaign, updates)
    return RunWork(planned.variant, planned.seed, updates, max(validations, 1), max(updates // every, 1))


def measured_in(
    root: Path, campaign: Campaign, sizes: Sizes, *, pilot: Path | None = None, with_runs: bool = True
) -> tuple[Measured, dict[str, str]]:
    """Times from the pilot and the baseline, and from real runs where there are some; and where each came from.

    Parameters
    ----------
    pilot
        The folder of a pilot, when it is not to be the last one.
    with_runs
        Whether updates and validations of real runs count: not where the plan is held against those runs.

    Raises
    ------
    NotMeasured
        When there is no pilot or no baseline yet.
    """
    pilots = [pilot / "phases.json"] if pilot else _newest(root, "pilot/*/phases.json")
    metas = _newest(root, "baseline/*/predictions/validation.meta.json")
    if not pilots or not metas:
        missing = {"the baseline's evaluation": "baseline"} if not metas else {}
        missing |= {"the pilot's measurements": "pilot"} if not pilots else {}
        raise NotMeasured(" and ".join(missing), *missing.values())
    phases = {row["phase"]: float(row["seconds"]) for row in _json(pilots[-1])["phases"]}
    speed = _speed(pilots[-1].with_name("measured.json"))
    updates, validations = _from_runs(root) if with_runs else ([], [])
    update = statistics.fmean(updates) if updates else phases.get("update-2", phases.get("update", 0.0))
    if update == 0.0:
        raise NotMeasured("the pilot's second update", "pilot")
    samples = min(campaign.evaluation.samples, sizes.validation)
    answers = samples * speed.row(sizes.validation) if speed else 0.0
    validation = speed.loss + answers if speed else phases.get("validation", 0.0)
    evaluations = _evaluated(root, sizes.validation) if with_runs else []
    answered = speed.row(sizes.validation) if speed else None
    evaluation = "the baseline, and the pilot's answers as long as the targets" if speed else "the baseline"
    if evaluations:
        answered, evaluation = (
            statistics.fmean(evaluations),
            f"the baseline, and {counted(len(evaluations), 'evaluation')} of runs",
        )
    sources = {
        "update": f"{counted(len(updates), 'update')} of runs" if updates else "the pilot's second update",
        "validation": f"{counted(len(validations), 'validation')} of runs" if validations else "the pilot",
        "evaluation": evaluation,
        "load and export": "the pilot",
    }
    baseline = _json(metas[-1])
    measured = Measured(
        seconds_per_update=update,
        seconds_per_validation=statistics.fmean(validations) if validations else validation,
        seconds_per_evaluated_row=float(baseline["seconds"]) / max(sizes.validation, 1),
        beside_seconds=float(baseline.get("beside_seconds") or 0.0),
        load_seconds=phases.get("load", 0.0) + (speed.start if speed else 0.0),
        export_seconds=phases.get("export", 0.0),
        pilot_seconds=sum(phases.values()),
        samples_seconds=answers,
        seconds_per_answered_row=answered,
    )
    return measured, sources


@dataclass(frozen=True)
class _Speed:
    """The pilot's ordinary batch: seconds of a start, of a validation's loss, and of all answers together."""

    start: float
    loss: float
    answers: float

    def row(self, rows: int) -> float:
        """Seconds of one answer."""
        return self.answers / max(rows, 1)


def _speed(path: Path) -> _Speed | None:
    """None where a pilot of an earlier version kept no speed."""
    try:
        speed = json.loads(path.read_text(encoding="utf-8"))["speed"]
        return _Speed(
            start=float(speed["start_seconds"]),
            loss=float(speed["seconds_per_loss_token"]) * float(speed["loss_tokens"]),
            answers=float(speed["seconds_per_prompt_token"]) * float(speed["prompt_tokens"])
            + float(speed["seconds_per_step"]) * float(speed["steps"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _from_runs(root: Path) -> tuple[list[float], list[float]]:
    """Seconds of each update and of each validation of real runs."""
    updates: list[float] = []
    validations: list[float] = []
    for path in sorted(root.glob("runs/*/steps.jsonl")):
        for line in read_lines(path):
            if isinstance(line.get("seconds"), int | float):
                (validations if "validation_loss" in line else updates).append(float(line["seconds"]))
    return updates, validations


def _evaluated(root: Path, rows: int) -> list[float]:
    """Seconds a row of each run's evaluation on validation."""
    seconds = [_json(path).get("seconds") for path in sorted(root.glob("runs/*/predictions/validation.meta.json"))]
    return [float(one) / max(rows, 1) for one in seconds if isinstance(one, int | float)]


def _newest(root: Path, pattern: str) -> list[Path]:
    when: Callable[[Path], float] = lambda path: path.stat().st_mtime  # noqa: E731
    return sorted(root.glob(pattern), key=when)


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
