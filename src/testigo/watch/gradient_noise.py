"""Updates that are mostly noise."""

from __future__ import annotations

import numpy as np

from testigo.rules import CannotCheck, Finding, Passed, found, passed, rule
from testigo.watch.curve import Curve
from testigo.watch.robust import level, spread


@rule("T120", "gradient-noise", "note", phase="training")
def updates_are_more_than_noise(
    curve: Curve, share: float = 0.8, norms: float = 0.7, at_least: int = 100
) -> Finding | Passed:
    """Updates show more than the noise between their batches.

    Why it matters: where one batch says one thing and the next another, most of each step is undone by the next, and
    the curve cannot tell whether anything is learned.

    What to do: not tested, likeliest first: raise `training.accumulation`, since noise falls as one over the square
    root of the rows of an update; lower `training.learning_rate`; see in `testigo show --longest` whether single rows
    outweigh all others.

    Source: the gradient noise scale (McCandlish et al. 2018, arXiv 1812.06162): updates below it are mostly noise. It
    is judged here by what a curve shows: losses that scatter by 80 % of their level, gradient norms that scatter by a
    factor of two (0.7 in the logarithm), and over at least 100 updates and a third of the planned run no fall beyond
    two standard errors.
    """
    losses = curve.taken_losses
    if len(losses) < at_least or curve.updates[-1] < (curve.n_planned or 0) / 3:
        raise CannotCheck(f"{len(losses)} losses are too few to tell noise from progress")
    sigma, usual = curve.loss_noise, level(losses)
    measured = curve.measured_norms
    positive = measured[measured > 0]
    scatter = spread(np.log(positive)) if len(positive) >= at_least else float("inf")
    fall, error = curve.loss_fall
    seen = f"losses scatter by {sigma:.3g} around {usual:.3g}; fall {fall:.3g} ± {error:.2g} over {len(losses)} losses"
    hidden = sigma > share * abs(usual) and scatter > norms and fall <= 2 * error
    return found(seen) if hidden else passed(seen)
