"""Before and after on the same rows: the difference, its test, and its interval."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from testigo.judgement.binary import mcnemar_exact, tango_interval
from testigo.judgement.units import (
    EXACT_UNITS,
    FEW_CHANGES,
    FEW_UNITS,
    MANY_UNITS,
    Floats,
    bootstrap_interval,
    sign_flip,
    t_interval,
    widen_for_the_unseen,
)

Kind = Literal["binary", "bounded"]


@dataclass(frozen=True)
class Paired:
    """One metric before and after on the same rows. Scores and differences run over shares from 0 to 1.

    `low` and `high` bound the difference at two-sided 1 − alpha; `lower_bound` and `upper_bound` are the one-sided ones
    at 1 − alpha, which guards are held against. `fixed`, `broken`, `both_right`, `both_wrong` add to `n`; of a metric
    between 0 and 1 they count the rows that rose, fell, stayed at 1, and stayed below 1.
    """

    n: int
    before: float
    after: float
    difference: float
    low: float
    high: float
    p_value: float
    test: str
    interval: str
    fixed: int
    broken: int
    both_right: int
    both_wrong: int
    n_units: int
    lower_bound: float
    upper_bound: float
    alpha: float

    def to_json(self) -> dict[str, Any]:
        """All fields as a JSON object."""
        return asdict(self)


def compare_paired(
    before: Sequence[float],
    after: Sequence[float],
    *,
    kind: str,
    groups: Sequence[Hashable] | None = None,
    alpha: float = 0.05,
    seed: int = 0,
) -> Paired:
    """Compare one metric on the same rows, in the same order.

    Parameters
    ----------
    before, after
        A score a row, 0 to 1; 0 or 1 where `kind` is binary.
    kind
        "binary" or "bounded".
    groups
        The group of each row. Where a group has several rows, the group is the unit of test and interval.
    seed
        Of the draws, where the test or interval draws.

    Raises
    ------
    ValueError
        When lengths differ, no row is given, or a score is not what the kind says.
    """
    old, new = checked_scores(before, kind), checked_scores(after, kind)
    if len(old) != len(new) or not len(old) or (groups is not None and len(groups) != len(old)):
        raise ValueError(
            f"{len(old)} scores before, {len(new)} after, {'no' if groups is None else len(groups)} groups"
        )
    rises = new - old
    sums, sizes = units_of(rises, groups)
    fixed, broken = int((rises > 0).sum()), int((rises < 0).sum())
    both_right = int(((rises == 0) & (new == 1)).sum())
    if kind == "binary" and len(sums) == len(rises):
        two, one = (tango_interval(fixed, broken, len(old), level) for level in (1 - alpha, 1 - 2 * alpha))
        p, test, interval = mcnemar_exact(fixed, broken), "exact McNemar", "Tango score"
    else:
        two, one, interval = _unit_intervals(sums, sizes, alpha, seed)
        p = sign_flip(sums, seed)
        exact = "exact" if np.count_nonzero(sums) <= EXACT_UNITS else "Monte-Carlo"
        test = f"{exact} sign-flip of {'rows' if len(sums) == len(rises) else 'group sums'}"
    return Paired(
        n=len(old),
        before=float(old.mean()),
        after=float(new.mean()),
        difference=float(rises.mean()),
        low=two[0],
        high=two[1],
        p_value=p,
        test=test,
        interval=interval,
        fixed=fixed,
        broken=broken,
        both_right=both_right,
        both_wrong=len(old) - fixed - broken - both_right,
        n_units=len(sums),
        lower_bound=one[0],
        upper_bound=one[1],
        alpha=alpha,
    )


def checked_scores(values: Sequence[float], kind: str) -> Floats:
    """Scores as an array; ValueError when one is not what the kind of metric allows."""
    if kind not in ("binary", "bounded"):
        raise ValueError(f"a metric is binary or bounded, not {kind!r}")
    scores = np.asarray(values, dtype=np.float64)
    right = np.isin(scores, (0.0, 1.0)) if kind == "binary" else (scores >= 0) & (scores <= 1)
    if not right.all():
        raise ValueError(f"a {kind} metric has the score {scores[~right][0]}")
    return scores


def units_of(rises: Floats, groups: Sequence[Hashable] | None) -> tuple[Floats, Floats]:
    """Sums and sizes of the units, in the order in which the groups first appear."""
    if groups is None:
        return rises, np.ones(len(rises))
    numbers: dict[Hashable, int] = {}
    unit = np.asarray([numbers.setdefault(group, len(numbers)) for group in groups])
    sums = np.bincount(unit, weights=rises).astype(np.float64)
    return sums, np.bincount(unit).astype(np.float64)


def _unit_intervals(
    sums: Floats, sizes: Floats, alpha: float, seed: int
) -> tuple[tuple[float, float], tuple[float, float], str]:
    """The intervals at 1 − alpha and 1 − 2 alpha, and their name."""
    units, mean = len(sums), float(sums.sum() / sizes.sum())
    over = "rows" if np.all(sizes == 1) else "groups"
    levels = (1 - alpha, 1 - 2 * alpha)
    raw: tuple[tuple[float, float], ...]
    if units == 1 or np.allclose(sums, mean * sizes, atol=1e-12):
        raw, name = ((mean, mean), (mean, mean)), f"rule of three over {over}"
    elif units < FEW_UNITS or units > MANY_UNITS:
        raw, name = tuple(t_interval(sums, sizes, level) for level in levels), f"t over {over}"
    else:
        raw, name = bootstrap_interval(sums, sizes, levels, seed), f"BCa bootstrap over {over}"
    if name.startswith("rule") or _changes_are_rare(sums):
        raw = tuple(widen_for_the_unseen(*ends, mean, units, level) for ends, level in zip(raw, levels, strict=True))
    two, one = ((max(low, -1.0), min(high, 1.0)) for low, high in raw)
    return two, one, name


def _changes_are_rare(sums: Floats) -> bool:
    """So few units changed that their spread says little about the others."""
    changed = np.count_nonzero(sums)
    return bool(changed < FEW_CHANGES and changed < len(sums) / 2)
