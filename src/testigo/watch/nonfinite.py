"""Losses and gradients that are no numbers."""

from __future__ import annotations

import numpy as np

from testigo.rules import CannotCheck, Finding, Passed, found, passed, rule
from testigo.watch.curve import Curve


@rule("T101", "not-finite", "stop", phase="training")
def training_is_finite(curve: Curve) -> Finding | Passed:
    """Loss and gradient are numbers in every update that was taken.

    Why it matters: one NaN that reaches the weights makes every later update worthless; some trainers hide it behind a
    running mean.

    What to do: go on from the last checkpoint before the named update; look at its rows with `testigo show`; set
    `model.precision: bf16` or `fp32`; then lower `training.learning_rate` or `training.clip`.

    Source: NaN propagates through every operation (IEEE 754-2019, section 6.2). An update that the fp16 scaler skipped
    is none, unless the loss itself is not finite twice in a row: scaling cannot cause that.
    """
    no_loss = ~np.isfinite(curve.losses)
    twice = np.zeros_like(no_loss)
    twice[1:] = no_loss[1:] & no_loss[:-1]
    bad = ((no_loss | ~np.isfinite(curve.gradient_norms)) & ~curve.skipped) | twice
    at = np.flatnonzero(bad & (curve.updates > curve.since))
    if len(at):
        first = int(at[0])
        update = int(curve.updates[first])
        what = f"loss {curve.losses[first]:.4g}, gradient norm {_norm(curve.gradient_norms[first])}"
        return found(f"update {update}: {what}; {len(at)} such updates", rows=curve.rows.get(update, ()))
    return passed(f"loss and gradient norm are finite in {len(curve)} updates, skipped ones aside")


@rule("T117", "validation-not-finite", "stop", phase="training")
def validation_is_finite(curve: Curve) -> Finding | Passed:
    """Every validation loss is a number.

    Why it matters: a checkpoint cannot be chosen by NaN, and comparisons with NaN are always false.

    What to do: look for validation rows without a token in the loss with `testigo show`; set `model.precision: bf16`
    or `fp32`.

    Source: comparisons with NaN are unordered (IEEE 754-2019, section 5.11).
    """
    if not curve.validation:
        raise CannotCheck("there was no validation yet")
    bad = [update for update, loss, _ in curve.validation if not np.isfinite(loss) and update >= curve.since]
    if bad:
        return found(f"the validation loss at update {bad[0]} is not finite ({len(bad)} such validations)")
    return passed(f"{len(curve.validation)} validation losses are finite")


def _norm(value: float) -> str:
    return "not measured" if value < 0 else f"{value:.4g}"
