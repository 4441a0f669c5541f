"""The loss jumps to and fro, or swings in waves."""

from __future__ import annotations

import math

import numpy as np

from testigo.rules import CannotCheck, Finding, Passed, found, passed, rule
from testigo.watch.curve import Curve
from testigo.watch.robust import MAD_TO_SIGMA, Numbers, level


@rule("T115", "oscillation", "warn", phase="training")
def loss_does_not_oscillate(curve: Curve, updates: int = 40, share: float = 0.05) -> Finding | Passed:
    """The loss does not jump to and fro from update to update.

    Why it matters: a loss that is up, down, up, down steps over the valley again and again.

    What to do: not tested, likeliest first: halve `training.learning_rate`; raise `training.accumulation`, when two
    kinds of batches take turns; set `training.clip: 1.0`.

    Source: gradient descent over a parabola overshoots for ever at a learning rate of 2 / curvature (Goodfellow, Bengio
    and Courville 2016, section 8.2). Independent noise changes its direction in two of three places; 38 of 39 happens
    once in 10^5. The same rows coming back every second update are no fault.
    """
    losses, numbers = _last_in_a_row(curve, updates)
    steps = losses[1:] - losses[:-1]
    turns = int(np.count_nonzero(steps[1:] * steps[:-1] < 0))
    likeness = float(steps[1:] @ steps[:-1]) / max(float(steps @ steps), 1e-300)
    size = level(np.abs(steps))
    seen = f"{turns} turns in {len(losses)} updates, step {size:.3f} at loss {level(losses):.3f}"
    swings = turns >= len(steps) - 2 and likeness < -0.85 and size > share * abs(level(losses))
    return found(seen) if swings and not _same_rows_again(curve, numbers.tolist()) else passed(seen)


@rule("T122", "waves", "warn", phase="training")
def loss_does_not_swing(curve: Curve, updates: int = 120, power: float = 0.6, share: float = 0.1) -> Finding | Passed:
    """The loss does not swing in regular waves.

    Why it matters: waves of one length have a cause of their own beside learning: a learning rate that drives the model
    over its valley and back, or rows that come sorted instead of shuffled.

    What to do: not tested, likeliest first: see that rows of one kind do not come together (a `data.source` that is
    sorted, read by a loader that does not shuffle); halve `training.learning_rate`; raise `training.accumulation`.

    Source: Fisher 1929, "Tests of significance in harmonic analysis": the share of the strongest of 60 frequencies in
    all. That one has 60 % by chance has a probability of 60 × 0.4^59 under noise; three neighbours together are little
    likelier. Waves as long as an epoch or a whole part of it, and waves that the learning rate makes, are no fault.
    """
    losses, numbers = _last_in_a_row(curve, updates)
    period, strongest, size = _wave(losses)
    usual = abs(level(losses))
    seen = f"waves of {period:.1f} updates have {strongest:.0%} of the scatter, ±{size:.3g} at loss {usual:.3g}"
    if strongest < power or size < share * usual:
        return passed(seen)
    distance = float(numbers[1] - numbers[0])
    if _is_of_the_epoch(curve, period * distance) or _rate_swings_too(curve, numbers, period):
        return passed(f"{seen}; as the epochs or the learning rate")
    return found(seen)


def _last_in_a_row(curve: Curve, updates: int) -> tuple[Numbers, Numbers]:
    """The last losses and their updates, at equal distances."""
    taken = curve.taken
    losses, numbers = curve.taken_losses[-updates:], curve.updates[taken][-updates:]
    if len(losses) < updates:
        raise CannotCheck(f"fewer than {updates} losses")
    distances = numbers[1:] - numbers[:-1]
    if distances.max() > distances.min():
        raise CannotCheck("the last updates are not in a row")
    return losses, numbers


def _wave(losses: Numbers) -> tuple[float, float, float]:
    """Length [updates], share of the scatter and amplitude of the strongest wave of 3 to n/5 updates.

    The scatter is measured around a straight line; single wild losses are held to three standard deviations.
    """
    n = len(losses)
    places = np.arange(n) - (n - 1) / 2
    rest = losses - losses.mean()
    rest = rest - places * (float(places @ rest) / float(places @ places))
    sigma = MAD_TO_SIGMA * level(np.abs(rest))
    if sigma == 0:
        return 0.0, 0.0, 0.0
    rest = np.minimum(np.maximum(rest, -3 * sigma), 3 * sigma)
    strength = np.abs(np.fft.rfft(rest - rest.mean())) ** 2
    best = 5 + int(strength[5 : n // 3 + 1].argmax())  # 5 waves at least, none shorter than 3 updates
    # a wave between two frequencies lies in both
    near = strength[best - 1 : best + 2].sum()
    return n / best, float(near / strength[1:].sum()), 2 * math.sqrt(near) / n


def _is_of_the_epoch(curve: Curve, period: float) -> bool:
    """Whether a wave is as long as an epoch, or a half, third or fourth part of it."""
    per_epoch = curve.updates_per_epoch
    return per_epoch is not None and any(abs(period * parts / per_epoch - 1) < 0.15 for parts in (1, 2, 3, 4))


def _rate_swings_too(curve: Curve, numbers: Numbers, period: float) -> bool:
    rates = curve.learning_rates[np.isin(curve.updates, numbers)]
    if not np.isfinite(rates).all() or float(np.ptp(rates)) == 0:
        return False
    own, strongest, _ = _wave(rates)
    return strongest > 0.3 and abs(own / period - 1) < 0.3


def _same_rows_again(curve: Curve, numbers: list[float]) -> bool:
    known = [(curve.rows.get(int(n)), curve.rows.get(int(n) - 2)) for n in numbers]
    both = [set(now) == set(before) for now, before in known if now and before]
    return len(both) > 0 and sum(both) > len(both) / 2
