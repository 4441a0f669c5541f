"""Gradients that vanish."""

from __future__ import annotations

from testigo.rules import CannotCheck, Finding, Passed, found, passed, rule
from testigo.watch.curve import Curve
from testigo.watch.robust import level


@rule("T110", "gradient-vanishes", "warn", phase="training")
def gradients_do_not_vanish(
    curve: Curve, norm: float = 1e-6, in_a_row: int = 5, loss: float = 0.05
) -> Finding | Passed:
    """Gradients do not vanish while there is still something to learn.

    Why it matters: without a gradient nothing moves, whatever the learning rate.

    What to do: not tested, likeliest first: hardly a token in the loss, so look at the mask with `testigo show`;
    gradients rounded to zero, so set `model.precision: fp32` (fp16 rounds those below 6e-8); parameters that do not
    reach the output, so see the pilot's B rules.

    Source: Hochreiter 1991. The gradient of cross-entropy is of the size of the error; norms below 1e-6 at a loss above
    0.05 nats mean that it does not arrive.
    """
    norms = curve.measured_norms
    losses = curve.taken_losses
    if len(norms) < in_a_row or len(losses) < in_a_row:
        raise CannotCheck(f"fewer than {in_a_row} gradient norms were measured")
    most, now = float(norms[-in_a_row:].max()), level(losses[-in_a_row:])
    seen = f"the last {in_a_row} gradient norms are at most {most:.3g}, at loss {now:.3f}"
    return found(seen) if most < norm and now > loss else passed(seen)
