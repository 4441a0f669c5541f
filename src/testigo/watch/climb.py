"""The loss climbs again from the best that it reached."""

from __future__ import annotations

from testigo.rules import CannotCheck, Finding, Passed, found, passed, rule
from testigo.watch.curve import Curve
from testigo.watch.robust import block_levels, noise


@rule("T116", "loss-climbs", "warn", phase="training", requires=("T109",))
def loss_does_not_climb(curve: Curve, spreads: float = 6.0, share: float = 0.25, block: int = 20) -> Finding | Passed:
    """The training loss does not climb lastingly from the best that it reached.

    Why it matters: a loss that was reached and lost means a learning rate too high for where the model is now, or rows
    of another kind from here on.

    What to do: not tested, likeliest first: `training.learning_rate` too high for where the model is now, so lower it
    or use `training.schedule.kind: cosine`; rows of another kind from here on, so see that rows are shuffled.

    Source: medians of blocks of 20 updates; six standard deviations of single updates are about twenty of a block's
    median.
    """
    losses = curve.taken_losses
    blocks = block_levels(losses, block)
    if len(blocks) < 3:
        raise CannotCheck(f"fewer than {3 * block} losses")
    best, now = float(blocks[:-1].min()), float(blocks[-1])
    band = max(spreads * noise(losses[:-block][-400:]), share * abs(best))
    seen = f"best block of {block} updates has loss {best:.3f}, the last {now:.3f} (band {band:.3f})"
    return found(seen) if now > best + band else passed(seen)
