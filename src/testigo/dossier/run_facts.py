"""The runs section: every planned run, whatever became of it, from the ledger and its folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from testigo import ledger as records
from testigo.dossier.files import read_json, read_lines, real, whole
from testigo.dossier.gate_facts import finding_from
from testigo.dossier.generations import points_from
from testigo.dossier.record import Curve, Run, RunFinding, ValidationPoint
from testigo.judgement import value_of
from testigo.ledger import Event

_POINTS_KEPT = 2000


def own_from(run: records.Run, folder: Path, metric: str) -> Run:
    """What the files of a run say of it; what is missing is tolerated. Why and how it ended is the ledger's to say."""
    result = read_json(folder / "result.json") or {}
    trained = result.get("trained")
    trained = trained if isinstance(trained, Mapping) else {}
    return Run(
        id=run.id,
        variant=run.variant,
        seed=run.seed,
        state=run.state,
        cause="",
        updates=whole(result.get("updates")),
        attempts=run.attempts,
        seconds=real(result.get("seconds")),
        cost=None,
        best_update=whole(result.get("best_update")),
        best_validation_loss=real(result.get("best_validation_loss")),
        supervised_tokens=whole(result.get("supervised_tokens")),
        examples=whole(result.get("examples")),
        trained_tensors=whole(trained.get("tensors")),
        trained_parameters=whole(trained.get("parameters")),
        trained_share=real(trained.get("share")),
        weights_sha256=str(result.get("final_weights_sha256") or ""),
        invalid_because="",
        scores={},
        n_scored=0,
        findings=tuple(
            RunFinding(whole(line.get("update")), finding_from(line)) for line in read_lines(folder / "findings.jsonl")
        ),
        samples=points_from(folder, metric),
        curve=curve_from(read_lines(folder / "steps.jsonl")),
    )


def as_recorded(
    run: records.Run,
    own: Run,
    predictions: Sequence[Mapping[str, Any]],
    *,
    events: Sequence[Event],
    price_per_hour: float | None,
    metrics: Mapping[str, str],
) -> Run:
    """A run with all that the ledger and its outputs tell; what they leave open stays as the run's `own` files say.

    Why it ended is the ledger's word alone: an empty cause is none.
    """
    seconds = real(run.seconds) or own.seconds
    return replace(
        own,
        id=run.id,
        variant=run.variant,
        seed=run.seed,
        state=run.state,
        cause=run.cause,
        updates=run.updates or own.updates or (0 if run.attempts else None),
        attempts=run.attempts,
        seconds=seconds,
        cost=None if price_per_hour is None or seconds is None else price_per_hour * seconds / 3600,
        invalid_because=_why_invalid(run, events),
        scores=mean_scores(predictions, metrics),
        n_scored=len(predictions),
    )


def mean_scores(predictions: Sequence[Mapping[str, Any]], metrics: Mapping[str, str]) -> dict[str, float]:
    """The mean of each metric over the rows that have it; of one that no row has, its value over all rows."""
    columns: dict[str, list[float]] = {}
    for line in predictions:
        scores = line.get("scores")
        for metric, value in (scores if isinstance(scores, Mapping) else {}).items():
            if (number := real(value)) is not None:
                columns.setdefault(str(metric), []).append(number)
    means = {metric: sum(values) / len(values) for metric, values in columns.items()}
    if predictions and all("target" in line and "output" in line for line in predictions):
        means |= {metric: value_of(predictions, metric, kind) for metric, kind in metrics.items() if kind == "corpus"}
    return means


def curve_from(steps: Sequence[Mapping[str, Any]]) -> Curve | None:
    """The steps as columns. A resumed run may have written an update twice: the later line counts."""
    by_update: dict[int, Mapping[str, Any]] = {}
    validations: dict[int, ValidationPoint] = {}
    for line in steps:
        update = whole(line.get("update"))
        if update is None:
            continue
        if "validation_loss" in line:
            loss, tokens = real(line["validation_loss"]), whole(line.get("validation_tokens"))
            validations[update] = ValidationPoint(update, loss, tokens)
        else:
            by_update[update] = line
    if not by_update and not validations:
        return None
    updates = sorted(by_update)
    curve = Curve(
        updates=tuple(updates),
        losses=tuple(real(by_update[update].get("loss")) for update in updates),
        learning_rates=tuple(real(by_update[update].get("learning_rate")) for update in updates),
        gradient_norms=tuple(real(by_update[update].get("gradient_norm")) for update in updates),
        n_not_finite=sum(real(by_update[update].get("loss")) is None for update in updates),
        n_skipped=sum(bool(by_update[update].get("skipped")) for update in updates),
        validation=tuple(validations[update] for update in sorted(validations)),
    )
    return thinned(curve, _POINTS_KEPT)


def thinned(curve: Curve, points: int) -> Curve:
    """Every k-th update of a long run, its last, and what was not finite: the whole series stays in `steps.jsonl`."""
    n = len(curve.updates)
    if n <= points:
        return curve
    lost = [i for i, loss in enumerate(curve.losses) if loss is None][:points]
    kept = sorted({*range(0, n, -(-n // points)), n - 1, *lost})
    return replace(
        curve,
        updates=tuple(curve.updates[i] for i in kept),
        losses=tuple(curve.losses[i] for i in kept),
        learning_rates=tuple(curve.learning_rates[i] for i in kept),
        gradient_norms=tuple(curve.gradient_norms[i] for i in kept),
    )


def _why_invalid(run: records.Run, events: Sequence[Event]) -> str:
    reasons = [str(event.body.get("reason", "")) for event in events if event.run == run.id]
    was = f" (it was {run.previous_state})" if run.previous_state else ""
    return f"{reasons[-1]}{was}" if reasons else ""
