"""The bootstrap over units: many draws at once, and Efron's corrected ends from them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import starmap
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

Floats = NDArray[np.float64]

RESAMPLES: Final = 9_999
"""Draws of the Monte-Carlo test and of the bootstrap: a p-value near 0.05 then has a standard error of 0.002."""
CHUNK: Final = 1_000_000
"""Numbers drawn at once: they stay in the cache."""
FEW_KINDS: Final = 16
"""With so many times fewer kinds of units than units, how many of a kind go up is drawn as one binomial number: the
same distribution, faster."""
FEW_DRAWN_KINDS: Final = 3
"""The same for draws with replacement, where counts of kinds are drawn as one multinomial number each."""


def drawn_means(sums: Floats, sizes: Floats, seed: int, draws: int = RESAMPLES) -> Floats:
    """sum(sums) / sum(sizes) of as many units as there are, drawn with replacement, `draws` times. (draws,)

    Equal units are one kind: where there are few kinds, how often each is drawn comes from one multinomial number each.
    Chunks have random numbers of their own, so that how many threads share the work changes nothing.
    """
    units = np.stack([sums, sizes], axis=1)  # (U, 2)
    kinds, counts = np.unique(units, axis=0, return_counts=True)  # (K, 2), (K,)
    if len(kinds) * FEW_DRAWN_KINDS <= len(units) or len(kinds) == 1:
        weights = np.random.default_rng(seed).multinomial(len(units), counts / len(units), size=draws)  # (draws, K)
        return np.asarray((weights @ kinds[:, 0]) / (weights @ kinds[:, 1]))
    ragged = bool(np.ptp(sizes) > 0)
    rows = len(units) * sizes[0]

    def chunk(random: np.random.SeedSequence, size: int) -> Floats:
        drawn = _units(random, size, len(units))  # (size, U)
        total = np.take(sums, drawn).sum(axis=1)
        return np.asarray(total / (np.take(sizes, drawn).sum(axis=1) if ragged else rows))

    return _in_chunks(chunk, draws, len(units), seed)


def drawn_weights(n_units: int, seed: int, draws: int = RESAMPLES) -> Iterator[Floats]:
    """How often each unit is in a draw, some draws at a time. (size, U)"""
    for random, size in _chunks(draws, n_units, seed):
        drawn = _units(random, size, n_units)
        places = drawn + n_units * np.arange(size)[:, None]
        yield np.bincount(places.ravel(), minlength=n_units * size).reshape(size, n_units).astype(np.float64)


def bca_ends(drawn: Floats, estimate: float, left_out: Floats, confidence: float) -> tuple[float, float] | None:
    """The bias-corrected and accelerated ends of a statistic; None where they are degenerate.

    Parameters
    ----------
    drawn
        The statistic of each draw.
    left_out
        The statistic with each unit left out in turn. (U,)

    Source: Efron 1987, JASA 82:171-185, equations 2.3 and 6.6; the same numbers as scipy.stats.bootstrap's.
    """
    below = (np.count_nonzero(drawn < estimate) + np.count_nonzero(drawn <= estimate)) / (2 * len(drawn))
    influence = left_out.mean() - left_out
    spread = float((influence**2).sum()) ** 1.5
    if not 0 < below < 1 or spread == 0:
        return None
    bias, acceleration = float(ndtri(below)), float((influence**3).sum()) / (6 * spread)
    ends = []
    for tail in ((1 - confidence) / 2, (1 + confidence) / 2):
        shifted = bias + float(ndtri(tail))
        ends.append(float(ndtr(bias + shifted / (1 - acceleration * shifted))))
    low, high = np.quantile(drawn, ends)
    return (float(low), float(high)) if math.isfinite(low + high) else None


def _in_chunks(chunk: Callable[[np.random.SeedSequence, int], Floats], draws: int, width: int, seed: int) -> Floats:
    parts = list(_chunks(draws, width, seed))
    if len(parts) < 8:
        return np.concatenate(list(starmap(chunk, parts)))
    with ThreadPoolExecutor(2) as pool:
        return np.concatenate(list(pool.map(chunk, *zip(*parts, strict=True))))


def _chunks(draws: int, width: int, seed: int) -> Iterator[tuple[np.random.SeedSequence, int]]:
    a_chunk = max(1, min(draws, CHUNK // width))
    n_chunks = math.ceil(draws / a_chunk)
    for n, random in enumerate(np.random.SeedSequence(seed).spawn(n_chunks)):
        yield random, min(a_chunk, draws - n * a_chunk)


def _units(random: np.random.SeedSequence, draws: int, n_units: int) -> NDArray[np.intp]:
    """Numbers of drawn units. (draws, U)

    From 24 random bits each: with 10,000 units no unit is favoured by more than 0.06 %.
    """
    shares = np.random.Generator(np.random.SFC64(random)).random((draws, n_units), dtype=np.float32)
    shares *= np.float32(n_units)
    return np.minimum(shares, np.float32(n_units - 0.5)).astype(np.intp)
