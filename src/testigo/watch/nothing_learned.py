"""A loss of zero with a gradient of zero."""

from __future__ import annotations

import numpy as np

from testigo.rules import Finding, Passed, found, passed, rule
from testigo.watch.curve import Curve


@rule("T107", "nothing-is-learned", "stop", phase="training")
def something_is_in_the_loss(curve: Curve) -> Finding | Passed:
    """No update has a loss of exactly zero with a gradient of exactly zero.

    Why it matters: that is what a run with every label masked looks like; it ends with exit code 0 and learned nothing.

    What to do: look at the mask with `testigo show`; raise `encoding.maximum_length` when answers were cut away.

    Source: cross-entropy is zero only for a probability of one, which a softmax over finite logits does not give.
    """
    zero = (curve.losses == 0.0) & (curve.gradient_norms == 0.0) & ~curve.skipped
    at = np.flatnonzero(zero & (curve.updates > curve.since))
    if len(at):
        update = int(curve.updates[at[0]])
        return found(
            f"update {update}: loss 0.0 and gradient norm 0.0 ({len(at)} such updates)", rows=curve.rows.get(update, ())
        )
    return passed("no update has both loss and gradient norm at zero")
