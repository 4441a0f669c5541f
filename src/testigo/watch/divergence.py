"""The loss runs away from where it began."""

from __future__ import annotations

from testigo.rules import CannotCheck, Finding, Passed, found, passed, rule
from testigo.watch.curve import Curve
from testigo.watch.robust import level, noise


@rule("T109", "diverging", "stop", phase="training")
def loss_does_not_run_away(curve: Curve, spreads: float = 6.0, share: float = 0.25) -> Finding | Passed:
    """The loss is not lastingly above where it began.

    Why it matters: a model that became worse than it was at the start hardly ever comes back, and each further update
    costs.

    What to do: not tested, likeliest first: `training.learning_rate` too high, so lower it to a third; raise
    `training.schedule.warmup`; set `training.clip: 1.0`.

    Source: the median of the last ten updates against that of the first ten; six standard deviations of the noise of
    single updates are about ten of the difference of these medians.
    """
    losses = curve.taken_losses
    if len(losses) < 20:
        raise CannotCheck("fewer than 20 losses")
    start, now = level(losses[:10]), level(losses[-10:])
    band = max(spreads * noise(losses[:-10][-200:]), share * abs(start))
    seen = f"loss {start:.3f} at first, {now:.3f} over the last ten updates (band {band:.3f})"
    return found(seen) if now > start + band else passed(seen)
