"""Levels and noise that a few wild values cannot move.

Source for the median absolute deviation and its factor: Rousseeuw and Croux 1993, "Alternatives to the median absolute
deviation"; for 1.4826 = 1 / Phi^-1(3/4) under normal noise. Noise around a moving level is measured on successive
differences, which the level's slow movement hardly touches (von Neumann et al. 1941, "The mean square successive
difference").
"""

from __future__ import annotations

import math

import numpy as np

from testigo.watch.curve import Numbers

MAD_TO_SIGMA = 1.4826


def level(values: Numbers) -> float:
    """The median; NaN of nothing. Several times faster than `numpy.median`, which the live watch needs."""
    n = len(values)
    if n == 0:
        return float("nan")
    if n % 2:
        return float(np.partition(values, n // 2)[n // 2])
    parted = np.partition(values, (n // 2 - 1, n // 2))
    return float(parted[n // 2 - 1] + parted[n // 2]) / 2


def spread(values: Numbers) -> float:
    """Standard deviation around the median, by the median absolute deviation."""
    return MAD_TO_SIGMA * level(np.abs(values - level(values)))


def noise(values: Numbers) -> float:
    """Standard deviation of the noise around a slowly moving level; 0 of fewer than three values."""
    if len(values) < 3:
        return 0.0
    return MAD_TO_SIGMA * level(np.abs(values[1:] - values[:-1])) / math.sqrt(2)


def bend_noise(values: Numbers) -> float:
    """Standard deviation of the noise around a bent curve, from third differences (variance 1 + 9 + 9 + 1 = 20)."""
    if len(values) < 5:
        return 0.0
    return MAD_TO_SIGMA * level(np.abs(np.diff(values, n=3))) / math.sqrt(20)


def bend_rms(values: Numbers) -> float:
    """The same by the mean square: careful where there are few values, and moved by wild ones."""
    if len(values) < 5:
        return 0.0
    return math.sqrt(float(np.mean(np.diff(values, n=3) ** 2)) / 20)


def slope_fall(values: Numbers, sigma: float) -> tuple[float, float]:
    """How far the values fall over their whole length by a straight line, and its standard error.

    Values further than three standard deviations from the median count as three. The estimate is that of least squares
    over equal distances, whose standard error of the fall is sigma × sqrt(12 / n).
    """
    middle = level(values)
    calm = np.clip(values, middle - 3 * sigma, middle + 3 * sigma)
    fall = -12 * float(np.mean(np.linspace(-0.5, 0.5, len(values)) * (calm - calm.mean())))
    return fall, sigma * math.sqrt(12 / max(len(values), 1))


def block_levels(values: Numbers, block: int) -> Numbers:
    """The median of each whole block, counted from the end."""
    n_blocks = len(values) // block
    if n_blocks == 0:
        return np.empty(0)
    medians: Numbers = np.median(values[len(values) - n_blocks * block :].reshape(n_blocks, block), axis=1)
    return medians
