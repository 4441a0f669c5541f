"""Losses and gradients that are no numbers, and overflows that only look like it."""

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


@rule("T102", "overflow-skipped", "note", phase="training")
def overflows_are_single(curve: Curve) -> Finding | Passed:
    """An update was skipped because fp16 gradients overflowed; this is no divergence.

    Why it matters: the scaler tries larger scales from time to time and takes a step back when it overflows. Nothing
    was changed by the skipped update.

    What to do: nothing; the scaler finds its scale by itself.

    Source: Micikevicius et al. 2018, "Mixed precision training"; torch.amp.GradScaler grows every 2,000 updates.
    """
    at = np.flatnonzero(curve.skipped & (curve.updates > curve.since))
    if len(at):
        return found(f"{len(at)} updates skipped by the scaler, the last is update {int(curve.updates[at[-1]])}")
    return passed("no update was skipped")


@rule("T103", "overflow-repeated", "stop", phase="training")
def overflows_end(curve: Curve, in_a_row: int = 4, within_20: int = 5, first: int = 16) -> Finding | Passed:
    """Overflows do not repeat.

    Why it matters: a scaler that overflows again and again has no scale that works: the gradients themselves are too
    large or not finite, and nothing is learned.

    What to do: set `model.precision: bf16` or `fp32`; lower `training.learning_rate`.

    Source: torch.amp.GradScaler starts at 65,536 = 2^16 and halves, so up to 16 skips at the start are the search for a
    scale; later one is expected in 2,000 updates.
    """
    skipped = curve.skipped
    if not skipped.any():
        return passed("no update was skipped")
    run = 0
    for value in skipped[::-1]:
        if not value:
            break
        run += 1
    start = int(curve.updates[-1]) <= first + 1 and skipped[: len(skipped) - run].all()
    recent = skipped[-20:] & (curve.updates[-20:] > first)
    seen = f"{run} updates skipped in a row, {int(skipped[-20:].sum())} of the last {len(skipped[-20:])}"
    if run > first or (run >= in_a_row and not start) or int(recent.sum()) >= within_20:
        return found(f"{seen}, at update {int(curve.updates[-1])}")
    return passed(seen)


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
