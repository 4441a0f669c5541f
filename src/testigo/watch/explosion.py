"""Gradients that explode."""

from __future__ import annotations

from testigo.rules import CannotCheck, Finding, Passed, found, passed, rule
from testigo.watch.curve import Curve
from testigo.watch.robust import level


@rule("T108", "gradient-explodes", "warn", phase="training")
def gradients_do_not_explode(
    curve: Curve, times: float = 20.0, in_a_row: int = 3, window: int = 64
) -> Finding | Passed:
    """Gradient norms do not jump to many times their usual size and stay there.

    Why it matters: a single large gradient is clipped and forgotten; several in a row throw the model out of where it
    was.

    What to do: not tested, likeliest first: `training.learning_rate` too high for where the model is now, so lower it;
    no clipping, so set `training.clip: 1.0`; a warm-up too short, so raise `training.schedule.warmup`.

    Source: Pascanu, Mikolov and Bengio 2013, "On the difficulty of training recurrent neural networks". Three in a row
    above 20 times the median: norms that scatter by a factor of e from batch to batch do that once in 10^8 updates.
    """
    norms = curve.measured_norms
    if len(norms) < 10 + in_a_row:
        raise CannotCheck(f"fewer than {10 + in_a_row} gradient norms were measured")
    usual = level(norms[:-in_a_row][-window:])
    least = float(norms[-in_a_row:].min())
    seen = f"the last {in_a_row} gradient norms are {least:.3g} or more, usual is {usual:.3g}"
    return found(seen) if usual > 0 and least > times * usual else passed(seen)
