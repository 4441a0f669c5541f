"""A loss of zero with a gradient of zero."""

from __future__ import annotations

import numpy as np

from testigo.rules import Finding, Passed, found, passed, rule
from testigo.watch.curve import UNMEASURED, Curve


@rule("T107", "nothing-is-learned", "stop", phase="training")
def something_is_in_the_loss(curve: Curve, in_a_row: int = 3, nats: float = 0.1) -> Finding | Passed:
    """No update has a loss of exactly zero with a gradient of exactly zero.

    Why it matters: that is what a run with every label masked looks like; it ends with exit code 0 and learned nothing.

    What to do: look at the mask with `testigo show`; raise `encoding.maximum_length` when answers were cut away.

    Source: cross-entropy is zero only for a probability of one, which a softmax over finite logits does not give. Where
    the gradient was not measured, three losses of exactly zero in a row count that come first or right after losses
    above 0.1 nats: transformers' Trainer logs them in place of NaN (`logging_nan_inf_filter`, on by default).
    """
    zero = (curve.losses == 0.0) & (curve.gradient_norms == 0.0) & ~curve.skipped
    at = np.flatnonzero(zero & (curve.updates > curve.since))
    if len(at):
        update = int(curve.updates[at[0]])
        return found(
            f"update {update}: loss 0.0 and gradient norm 0.0 ({len(at)} such updates)", rows=curve.rows.get(update, ())
        )
    hidden = _hidden(curve, in_a_row, nats)
    if hidden is not None and hidden > curve.since:
        return found(f"loss exactly 0.0 from update {hidden} on; its gradient was not measured", remedy=_HIDDEN)
    return passed("no update has both loss and gradient norm at zero")


def _hidden(curve: Curve, in_a_row: int, nats: float) -> int | None:
    """The first of the losses of exactly zero that end an unmeasured curve; None where there are none."""
    other = np.flatnonzero(curve.losses != 0.0)
    start = int(other[-1]) + 1 if len(other) else 0
    if len(curve) - start < in_a_row or not (curve.gradient_norms[start:] == UNMEASURED).all():
        return None
    before = curve.losses[max(0, start - 3) : start]
    return int(curve.updates[start]) if len(before) == 0 or float(np.nanmin(before)) > nats else None


_HIDDEN = (
    "Not tested, likeliest first: the loss is NaN and the trainer hides it, so set `logging_nan_inf_filter=False` and "
    "see T101; every label is masked, so look at `labels` of a batch."
)
