"""Gradients that explode or vanish."""

from __future__ import annotations

import numpy as np

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

    What to do: set `training.clip: 1.0`; lower `training.learning_rate`; raise `training.schedule.warmup`.

    Source: Pascanu, Mikolov and Bengio 2013, "On the difficulty of training recurrent neural networks". Three in a row
    above 20 times the median: norms that scatter by a factor of e from batch to batch do that once in 10^8 updates.
    """
    norms = _measured(curve)
    if len(norms) < 10 + in_a_row:
        raise CannotCheck(f"fewer than {10 + in_a_row} gradient norms were measured")
    usual = level(norms[:-in_a_row][-window:])
    least = float(norms[-in_a_row:].min())
    seen = f"the last {in_a_row} gradient norms are {least:.3g} or more, usual is {usual:.3g}"
    return found(seen) if usual > 0 and least > times * usual else passed(seen)


@rule("T110", "gradient-vanishes", "warn", phase="training")
def gradients_do_not_vanish(
    curve: Curve, norm: float = 1e-6, in_a_row: int = 5, loss: float = 0.05
) -> Finding | Passed:
    """Gradients do not vanish while there is still something to learn.

    Why it matters: without a gradient nothing moves, whatever the learning rate.

    What to do: look at the mask with `testigo show`; set `model.precision: fp32` (fp16 rounds gradients below 6e-8 to
    zero); see which parameters are trained in the pilot's B rules.

    Source: Hochreiter 1991. The gradient of cross-entropy is of the size of the error; norms below 1e-6 at a loss above
    0.05 nats mean that it does not arrive.
    """
    norms = _measured(curve)
    losses = curve.losses[curve.taken]
    if len(norms) < in_a_row or len(losses) < in_a_row:
        raise CannotCheck(f"fewer than {in_a_row} gradient norms were measured")
    most, now = float(norms[-in_a_row:].max()), level(losses[-in_a_row:])
    seen = f"the last {in_a_row} gradient norms are at most {most:.3g}, at loss {now:.3f}"
    return found(seen) if most < norm and now > loss else passed(seen)


def _measured(curve: Curve) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    norms = curve.gradient_norms
    return norms[np.isfinite(norms) & (norms >= 0) & ~curve.skipped]
