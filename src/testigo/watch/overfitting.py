"""Validation that rises while training falls."""

from __future__ import annotations

import numpy as np

from testigo.rules import CannotCheck, Finding, Passed, found, passed, rule
from testigo.watch.curve import Curve
from testigo.watch.robust import Numbers, bend_noise, bend_rms, level


@rule("T112", "overfitting", "warn", phase="training")
def validation_does_not_rise(
    curve: Curve, spreads: float = 4.0, share: float = 0.02, few: float = 0.15
) -> Finding | Passed:
    """The validation loss does not rise while the training loss falls.

    Why it matters: from here on the model learns its training rows and unlearns the rest.

    What to do: take the best checkpoint (`training.stop: {metric: validation_loss, patience: 3}`). Not tested,
    likeliest first: fewer `training.epochs` or `training.updates`; more rows; a higher `model.adapter.dropout`; a lower
    `model.adapter.rank`; a higher `training.weight_decay`.

    Source: Prechelt 1998, "Early stopping - but when?". The mean of the last three validations must lie above the best
    mean of three by 2 % and by four standard deviations of single validations, measured on third differences and
    widened while there are few; one or two bad validations say nothing. Of three to five validations, whose noise
    cannot be measured, the last two must each be higher than the one before, and the last by 15 % than the best.
    """
    points = [(update, loss) for update, loss, _ in curve.validation if np.isfinite(loss)]
    if len(points) < 3:
        raise CannotCheck("fewer than three validations")
    updates, losses = np.array(points, dtype=np.float64).T
    if len(points) < 6:
        return _of_few(curve, updates, losses, few)
    means = np.convolve(losses, np.ones(3) / 3, mode="valid")
    best = int(np.argmin(means[:-1]))
    lowest = int(np.argmin(losses))
    rise = float(means[-1] - means[best])
    noise = max(bend_noise(losses), bend_rms(losses[max(0, lowest - 2) :])) * (1 + 10 / (len(losses) - 3))
    band = max(share * abs(float(means[best])), spreads * noise)
    before, now = _training_near(curve, updates[lowest]), _training_near(curve, updates[-1])
    seen = f"validation {losses[lowest]:.3f} at update {int(updates[lowest])}, {losses[-1]:.3f} at {int(updates[-1])}"
    seen += f"; training {before:.3f} and {now:.3f}"
    rises = len(losses) - 1 - lowest >= 3 and rise > band and losses[-3:].min() > losses[lowest] + band / 2
    return found(seen) if rises and now < before else passed(seen)


def _of_few(curve: Curve, updates: Numbers, losses: Numbers, share: float) -> Finding | Passed:
    """Three to five validations, such as one an epoch."""
    before, now = _training_near(curve, updates[-3]), _training_near(curve, updates[-1])
    seen = ", ".join(f"{loss:.3f}" for loss in losses)
    seen = f"validation losses {seen}; training {before:.3f} and {now:.3f} at the last but two and the last"
    rises = losses[-3] < losses[-2] < losses[-1] and losses[-1] > losses.min() * (1 + share)
    return found(seen) if rises and now < before else passed(seen)


def _training_near(curve: Curve, update: float) -> float:
    """The training loss of the up to 20 updates until this one."""
    taken = curve.taken & (curve.updates <= update)
    return level(curve.losses[taken][-20:])
