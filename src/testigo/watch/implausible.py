"""A loss that is too good too fast."""

from __future__ import annotations

import numpy as np

from testigo.rules import CannotCheck, Finding, Passed, found, passed, rule
from testigo.watch.curve import Curve
from testigo.watch.robust import level


@rule("T114", "too-good-too-fast", "warn", phase="training")
def loss_is_plausible(curve: Curve, within: int = 50, nats: float = 0.005, from_nats: float = 0.5) -> Finding | Passed:
    """The loss does not fall to nearly nothing on rows that were never seen before.

    Why it matters: unseen rows that are predicted almost perfectly after a few updates usually hold their answer in the
    prompt, or are copies of each other.

    What to do: not tested, likeliest first: the input holds the target, so look at rows with `testigo show`; rows that
    are copies of each other, so set `data.duplicates.exact: drop`; a target that is the same for all rows.

    Source: 0.005 nats is a probability of 99.5 % for each token; only the first pass over the rows and the first 50
    updates are judged, since rows seen twice may be known by heart.
    """
    early = (curve.updates <= within) & (curve.epochs <= 1.0) & curve.taken
    losses = curve.losses[early]
    if curve.since >= within:
        raise CannotCheck("the first updates were judged before")
    if not np.isfinite(curve.epochs).any():
        raise CannotCheck("the epoch is not known")
    if len(losses) < 8:
        raise CannotCheck("fewer than eight updates in the first pass over the rows")
    low = min(level(losses[at : at + 5]) for at in range(3, len(losses) - 4))
    seen = f"loss {losses[0]:.3f} at first, at best {low:.4f} over five updates of unseen rows"
    return found(seen) if losses[0] >= from_nats and low < nats else passed(seen)
