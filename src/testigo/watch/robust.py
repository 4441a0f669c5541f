"""Levels and noise that a few wild values cannot move.

Source for the median absolute deviation and its factor: Rousseeuw and Croux 1993, "Alternatives to the median absolute
deviation"; for 1.4826 = 1 / Phi^-1(3/4) under normal noise. Noise around a moving level is measured on successive
differences, which the level's slow movement hardly touches (von Neumann et al. 1941, "The mean square successive
difference").
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Numbers: TypeAlias = npt.NDArray[np.float64]

MAD_TO_SIGMA = 1.4826


def level(values: Numbers) -> float:
    """The median; NaN of nothing. Several times faster than `numpy.median`, which the live watch needs."""
    n = len(values)
    if n == 0:
        return math.nan
    half = n // 2
    parted = values.copy()
    parted.partition(half)
    upper = float(parted[half])
    return upper if n % 2 else (float(parted[:half].max()) + upper) / 2


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
    return MAD_TO_SIGMA * level(np.abs(_third_differences(values))) / math.sqrt(20)


def bend_rms(values: Numbers) -> float:
    """The same by the mean square: careful where there are few values, and moved by wild ones."""
    if len(values) < 5:
        return 0.0
    return math.sqrt(float((_third_differences(values) ** 2).mean()) / 20)


def slope_fall(values: Numbers, sigma: float) -> tuple[float, float]:
    """How far the values fall over their whole length by a straight line, and its standard error.

    Values further than three standard deviations from the median count as three. The estimate is that of least squares
    over equal distances, whose standard error of the fall is sigma × sqrt(12 / n).
    """
    middle = level(values)
    calm = np.minimum(np.maximum(values - middle, -3 * sigma), 3 * sigma)
    n = len(values)
    places = np.arange(n) - (n - 1) / 2
    fall = -12 * float(places @ calm) / max(n * (n - 1), 1)
    return fall, sigma * math.sqrt(12 / max(n, 1))


def block_levels(values: Numbers, block: int) -> Numbers:
    """The median of each whole block, counted from the end."""
    n_blocks = len(values) // block
    if n_blocks == 0:
        return np.empty(0)
    return row_levels(values[len(values) - n_blocks * block :].reshape(n_blocks, block))


def row_levels(table: Numbers) -> Numbers:
    """The median of each row of an array (rows, values)."""
    ordered = table.copy()
    ordered.sort(axis=1)
    half = table.shape[1] // 2
    middle: Numbers = ordered[:, half]
    return middle if table.shape[1] % 2 else (ordered[:, half - 1] + middle) / 2


def _third_differences(values: Numbers) -> Numbers:
    return values[3:] - values[:-3] - 3 * (values[2:-1] - values[1:-2])
