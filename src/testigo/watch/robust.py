"""Levels and noise that a few wild values cannot move.

Source for the median absolute deviation and its factor: Rousseeuw and Croux 1993, "Alternatives to the median absolute
deviation"; for 1.4826 = 1 / Phi^-1(3/4) under normal noise. Noise around a moving level is measured on successive
differences, which the level's slow movement hardly touches (von Neumann et al. 1941, "The mean square successive
difference").
"""

from __future__ import annotations

import numpy as np

from testigo.watch.curve import Numbers

MAD_TO_SIGMA = 1.4826


def level(values: Numbers) -> float:
    """The median; NaN of nothing."""
    return float(np.median(values)) if len(values) else float("nan")


def noise(values: Numbers) -> float:
    """Standard deviation of the noise around a slowly moving level; 0 of fewer than three values."""
    if len(values) < 3:
        return 0.0
    return MAD_TO_SIGMA * float(np.median(np.abs(np.diff(values)))) / float(np.sqrt(2))


def bend_noise(values: Numbers) -> float:
    """Standard deviation of the noise around a slope that changes slowly, from second differences (variance 6)."""
    if len(values) < 4:
        return 0.0
    return MAD_TO_SIGMA * float(np.median(np.abs(np.diff(values, n=2)))) / float(np.sqrt(6))


def block_levels(values: Numbers, block: int) -> Numbers:
    """The median of each whole block, counted from the end."""
    n_blocks = len(values) // block
    if n_blocks == 0:
        return np.empty(0)
    medians: Numbers = np.median(values[len(values) - n_blocks * block :].reshape(n_blocks, block), axis=1)
    return medians
