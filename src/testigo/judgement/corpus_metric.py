"""Metrics that no single row has: macro F1 before and after, its test and its interval."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from testigo.judgement.bootstrap import CHUNK, FEW_DRAWN_KINDS, RESAMPLES, Floats, bca_ends, drawn_weights
from testigo.judgement.paired import Paired
from testigo.judgement.units import EXACT_UNITS, FEW_CHANGES, FEW_UNITS, MANY_UNITS, widen_for_the_unseen

CORPUS_METRICS: Final = ("macro_f1",)
"""What can be computed from the targets and outputs of all rows together."""


@dataclass(frozen=True)
class Counts:
    """What macro F1 needs of one side, unit by unit. A unit is a row, or a group of rows.

    Attributes
    ----------
    values
        For each unit and class: rows rightly given this class, and rows given it plus rows that are of it. (U, 2, C)
    """

    values: Floats

    @property
    def macro_f1(self) -> float:
        """Over all units."""
        return float(macro_f1_of(self.values.sum(axis=0)))


def macro_f1_of(counts: Floats) -> Floats:
    """The mean of the classes' F1 = 2 · right / (given + true), from counts (..., 2, C).

    A class that is neither given nor true, as it happens to rare ones in a draw, has no F1 and is left out.

    Source: Opitz and Burst 2019 (arXiv 1911.03347): the mean of F1 scores, not the F1 of mean precision and recall.
    """
    right, both = counts[..., 0, :], counts[..., 1, :]
    f1 = np.divide(2 * right, both, out=np.zeros_like(right), where=both > 0)
    n_classes = np.maximum((both > 0).sum(axis=-1), 1)
    return np.asarray(f1.sum(axis=-1) / n_classes)


def counts_of(
    targets: Sequence[str], outputs: Sequence[str], groups: Sequence[Hashable] | None, classes: Sequence[str]
) -> Counts:
    """The counts of one side. An output that is no class is wrong and belongs to none."""
    number = {name: k for k, name in enumerate(classes)}
    units: dict[Hashable, int] = {}
    rows = range(len(targets)) if groups is None else groups
    unit = np.asarray([units.setdefault(row, len(units)) for row in rows])
    values = np.zeros((len(units), 2, len(classes)))
    for row, target, output in zip(unit, targets, outputs, strict=True):
        values[row, 1, number[target]] += 1
        given = number.get(output)
        if given is not None:
            values[row, 1, given] += 1
            values[row, 0, given] += given == number[target]
    return Counts(values)


def compare_corpus(
    targets: Sequence[str],
    before: Sequence[str],
    after: Sequence[str],
    *,
    metric: str = "macro_f1",
    groups: Sequence[Hashable] | None = None,
    alpha: float = 0.05,
    seed: int = 0,
) -> Paired:
    """Compare a metric of all rows together, on the same rows in the same order.

    The classes are those of the targets: a class that these rows do not hold cannot be judged on them. `fixed` and
    `broken` count the rows whose answer became right and wrong.

    Parameters
    ----------
    targets, before, after
        The class of each row, and the two outputs.
    groups
        The group of each row; with several rows in one, the group is the unit.
    seed
        Of the draws.

    Raises
    ------
    ValueError
        When lengths differ, no row is given, or the metric is not known.

    Source: approximate randomisation, Noreen 1989, and for F1 Yeh 2000 (COLING, "More accurate tests"); the paired
    bootstrap, Efron 1987; the jackknife, Efron and Stein 1981, Annals of Statistics 9:586-596.
    """
    if metric not in CORPUS_METRICS:
        raise ValueError(f"{metric!r} is none of {', '.join(CORPUS_METRICS)}")
    sizes = {len(targets), len(before), len(after), len(targets if groups is None else groups)}
    if len(sizes) > 1 or not targets:
        raise ValueError(f"{len(targets)} targets, {len(before)} outputs before, {len(after)} after")
    classes = sorted(set(targets))
    old, new = (counts_of(targets, side, groups, classes) for side in (before, after))
    low, high, lower, upper, interval = _intervals(targets, old, new, alpha, seed)
    p_value, exact = randomisation_test(old, new, seed)
    over = "rows" if len(old.values) == len(targets) else "group outputs"
    right = [(a == t, b == t) for t, a, b in zip(targets, before, after, strict=True)]
    return Paired(
        n=len(targets),
        before=old.macro_f1,
        after=new.macro_f1,
        difference=new.macro_f1 - old.macro_f1,
        low=low,
        high=high,
        p_value=p_value,
        test=f"{'exact' if exact else 'approximate'} randomisation of {over}",
        interval=interval,
        fixed=right.count((False, True)),
        broken=right.count((True, False)),
        both_right=right.count((True, True)),
        both_wrong=right.count((False, False)),
        n_units=len(old.values),
        lower_bound=lower,
        upper_bound=upper,
        alpha=alpha,
    )


def randomisation_test(
    before: Counts, after: Counts, seed: int, *, exact_units: int = EXACT_UNITS
) -> tuple[float, bool]:
    """The two-sided p-value that it does not matter which model answered, and whether it is exact.

    Each unit's two outputs are swapped or not. All swaps are counted for up to `exact_units` units that changed,
    otherwise `RESAMPLES` seeded draws with the observed one, (hits + 1) / (draws + 1) (Phipson and Smyth 2010).
    """
    changes = after.values - before.values
    changes = changes[np.any(changes != 0, axis=(1, 2))]  # (U, 2, C)
    if not len(changes):
        return 1.0, True
    start = before.values.sum(axis=0)
    observed = abs(after.macro_f1 - before.macro_f1) - 1e-12  # equal ones stay equal in floating point

    def hits(kept: NDArray[Any], changes_of: Floats) -> int:
        moved = np.tensordot(kept.astype(np.float64), changes_of, axes=1)  # (draws, 2, C)
        new, old = start + moved, start + changes.sum(axis=0) - moved
        return int(np.count_nonzero(np.abs(macro_f1_of(new) - macro_f1_of(old)) >= observed))

    if len(changes) <= exact_units:
        every = np.arange(2 ** len(changes))[:, None] >> np.arange(len(changes)) & 1
        return hits(every, changes) / len(every), True
    rng, found, left = np.random.default_rng(seed), 0, RESAMPLES
    kinds, counts = np.unique(changes, axis=0, return_counts=True)  # how many of a kind stay is one binomial number
    are_few = len(kinds) * FEW_DRAWN_KINDS <= len(changes)
    while left:
        draws = min(left, max(1, CHUNK // max(len(kinds) if are_few else len(changes), changes[0].size)))
        if are_few:
            found += hits(rng.binomial(counts, 0.5, size=(draws, len(kinds))), kinds)
        else:
            found += hits(rng.integers(0, 2, size=(draws, len(changes)), dtype=np.int8), changes)
        left -= draws
    return (found + 1) / (RESAMPLES + 1), False


def jackknife(before: Counts, after: Counts) -> Floats:
    """The difference when each unit is left out in turn. (U,)"""
    left_out = [side.values.sum(axis=0) - side.values for side in (before, after)]
    return np.asarray(macro_f1_of(left_out[1]) - macro_f1_of(left_out[0]))


def standard_error(left_out: Floats) -> float:
    """Of a statistic, from its values with each unit left out."""
    n = len(left_out)
    return math.sqrt((n - 1) / n * float(((left_out - left_out.mean()) ** 2).sum()))


def _intervals(
    targets: Sequence[str], before: Counts, after: Counts, alpha: float, seed: int
) -> tuple[float, float, float, float, str]:
    """Two-sided ends at 1 − alpha, one-sided ends at 1 − alpha, and the interval's name."""
    units, difference = len(before.values), after.macro_f1 - before.macro_f1
    over, levels = "rows" if units == len(targets) else "groups", (1 - alpha, 1 - 2 * alpha)
    changed = int(np.any(after.values != before.values, axis=(1, 2)).sum())
    spread = jackknife(before, after) if units > 1 else np.zeros(1)

    def t(level: float) -> tuple[float, float]:
        reach = float(student.ppf((1 + level) / 2, units - 1)) * standard_error(spread)
        return difference - reach, difference + reach

    if units == 1 or not changed or float(np.ptp(spread)) < 1e-12:
        raw, name = tuple((difference, difference) for _ in levels), f"rule of three over {over}"
    elif units < FEW_UNITS or units > MANY_UNITS:
        raw, name = tuple(t(level) for level in levels), f"jackknife t over {over}"
    else:
        drawn = _drawn(before, after, seed)
        raw = tuple(bca_ends(drawn, difference, spread, level) or t(level) for level in levels)
        name = f"BCa bootstrap over {over}"
    if name.startswith("rule") or (changed < FEW_CHANGES and changed < units / 2):
        worth = _worth(targets, units)
        raw = tuple(
            widen_for_the_unseen(*ends, difference, worth, level) for ends, level in zip(raw, levels, strict=True)
        )
    two, one = ((max(low, -1.0), min(high, 1.0)) for low, high in raw)
    return *two, *one, name


def _drawn(before: Counts, after: Counts, seed: int) -> Floats:
    """The difference of units drawn with replacement, `RESAMPLES` times."""
    n_units, _, n_classes = before.values.shape
    flat = np.concatenate([side.values.reshape(n_units, -1) for side in (before, after)], axis=1)
    kinds, counts = np.unique(flat, axis=0, return_counts=True)
    if len(kinds) * FEW_DRAWN_KINDS <= n_units:
        weights = np.random.default_rng(seed).multinomial(n_units, counts / n_units, size=RESAMPLES)
        sums = weights.astype(np.float64) @ kinds
    else:
        sums = np.concatenate([weight @ flat for weight in drawn_weights(n_units, seed)])
    sums = sums.reshape(-1, 2, 2, n_classes)
    return np.asarray(macro_f1_of(sums[:, 1]) - macro_f1_of(sums[:, 0]))


def _worth(targets: Sequence[str], units: int) -> float:
    """How many units of equal weight the units are worth, where rare classes weigh more in the mean over classes.

    A row of a class with n rows weighs 1 / n: (Σ weight)² / Σ weight² of the rows, as a share of the units.

    Source: Kish 1965, Survey Sampling, effective sample size of unequal weights.
    """
    sizes = np.asarray([targets.count(name) for name in set(targets)], dtype=np.float64)
    return max(1.0, units / len(targets) * len(sizes) ** 2 / float((1 / sizes).sum()))
