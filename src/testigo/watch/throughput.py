"""Speed that falls."""

from __future__ import annotations

import numpy as np

from testigo.rules import CannotCheck, Finding, Passed, found, passed, rule
from testigo.watch.curve import Curve
from testigo.watch.robust import level


@rule("M102", "throughput-falls", "warn", phase="training")
def throughput_holds(curve: Curve, share: float = 0.5, lately: int = 20, at_least: int = 60) -> Finding | Passed:
    """Tokens per second do not fall to half of what they were.

    Why it matters: the run takes twice the time that was planned and paid for: a throttled or shared device, a slow
    disk, or memory that is swapped.

    What to do: not tested, likeliest first: see what else runs on the machine and how hot it is; lower
    `training.microbatch` when memory is nearly full; save less often (`training.checkpoint.every`).

    Source: medians of 20 updates against all before, so that single slow updates (checkpoints, validations) count for
    nothing; the first five are left out, since they compile and allocate.
    """
    known = np.isfinite(curve.tokens) & (curve.seconds > 0)
    rates = (curve.tokens[known] / curve.seconds[known])[5:]
    if len(rates) < at_least:
        raise CannotCheck(f"fewer than {at_least} updates with tokens and seconds")
    usual, now = level(rates[:-lately]), level(rates[-lately:])
    seen = f"{now:.0f} tokens/s over the last {lately} updates, {usual:.0f} before"
    return found(seen) if now < share * usual else passed(seen)
