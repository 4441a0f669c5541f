"""Updates that the fp16 scaler skipped."""

from __future__ import annotations

import numpy as np

from testigo.rules import Finding, Passed, found, passed, rule
from testigo.watch.curve import Curve


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
