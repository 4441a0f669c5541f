"""Yes or no per row: the exact test, the score interval, and what a count of zero can say."""

from __future__ import annotations

import math

from scipy.optimize import brentq
from scipy.stats import beta, binomtest, norm


def mcnemar_exact(fixed: int, broken: int) -> float:
    """The two-sided exact p-value that as many rows were fixed as broken by chance alone.

    Only rows that changed carry information; under no effect each is a fair coin. 1.0 when no row changed.

    Source: McNemar 1947; the exact form is the binomial test on the discordant pairs.
    """
    if fixed + broken == 0:
        return 1.0
    return float(binomtest(fixed, fixed + broken, 0.5).pvalue)


def tango_interval(fixed: int, broken: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """The score interval for the difference of two paired proportions, (fixed − broken) / n.

    It inverts the score test with the nuisance probability at its restricted maximum likelihood, so it keeps its
    level where the plain interval does not: few rows, few changes, none at all.

    Parameters
    ----------
    fixed, broken
        Rows that were wrong and became right, and the reverse.
    n
        All rows.
    confidence
        Two-sided, 0 to 1.

    Raises
    ------
    ValueError
        When the counts do not fit each other.

    Source: Tango 1998, Statistics in Medicine 17:891-908, equations 10 and 17.
    """
    if fixed < 0 or broken < 0 or n < 1 or fixed + broken > n:
        raise ValueError(f"{fixed} fixed and {broken} broken of {n} rows")
    z = float(norm.ppf((1 + confidence) / 2))
    estimate = (fixed - broken) / n

    def score(delta: float) -> float:
        b = -fixed - broken + (2 * n - fixed + broken) * delta
        c = -broken * delta * (1 - delta)
        p_broken = (math.sqrt(max(b * b - 8 * n * c, 0.0)) - b) / (4 * n)
        variance = n * (2 * p_broken + delta * (1 - delta))
        distance = fixed - broken - n * delta
        if variance <= 0 or distance == 0:
            return math.copysign(1e9, distance) if distance else 0.0
        return distance / math.sqrt(variance)

    edge = 1 - 1e-12
    low = -1.0 if fixed - broken == -n else float(brentq(lambda d: score(d) - z, -edge, estimate, xtol=1e-12))
    high = 1.0 if fixed - broken == n else float(brentq(lambda d: score(d) + z, estimate, edge, xtol=1e-12))
    return low, high


def clopper_pearson(count: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """The exact interval of a share: never covers less often than it says.

    Source: Clopper and Pearson 1934, Biometrika 26:404-413.
    """
    if not 0 <= count <= n or n < 1:
        raise ValueError(f"{count} of {n}")
    tail = (1 - confidence) / 2
    low = 0.0 if count == 0 else float(beta.ppf(tail, count, n - count + 1))
    high = 1.0 if count == n else float(beta.ppf(1 - tail, count + 1, n - count))
    return low, high


def rule_of_three(n: int, confidence: float = 0.95) -> float:
    """The largest share of rows that a kind of row may still have when none of `n` rows was of it; about 3/n.

    Source: Hanley and Lippman-Hand 1983, JAMA 249:1743-1745; exactly 1 − (1 − confidence)^(1/n).
    """
    if n < 1:
        raise ValueError(f"{n} rows")
    return float(1 - (1 - confidence) ** (1 / n))
