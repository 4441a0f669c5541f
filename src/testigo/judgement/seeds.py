"""Several seeds of the same run: each is reported, and none is chosen."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import numpy as np
from scipy.stats import norm
from scipy.stats import t as student

from testigo.judgement.bootstrap import Floats, drawn_weights
from testigo.judgement.corpus_metric import macro_f1_of

SEEDS_FOR_BOTH: Final = 5
"""With fewer seeds, drawing them anew says little about seeds that were not tried."""


@dataclass(frozen=True)
class OverSeeds:
    """The differences of all seeds.

    `low` and `high` are the t interval over seeds alone, None with one seed. `both_low` and `both_high` let seeds and
    rows vary, None below five seeds. `lost` are the seeds that diverged: each stands among the differences as if all
    its rows were wrong. Declared as bounds (`lost_as`), `best_mean` is the mean if all their rows were right.
    """

    metric: str
    differences: dict[int, float]
    mean: float
    low: float | None
    high: float | None
    p_value: float | None
    rose: int
    note: str
    both_low: float | None = None
    both_high: float | None = None
    lost: tuple[int, ...] = ()
    lost_as: str = ""
    best_mean: float | None = None

    def to_json(self) -> dict[str, Any]:
        """All fields as a JSON object; seeds become text keys."""
        plain = {**asdict(self), "differences": {str(seed): value for seed, value in self.differences.items()}}
        if not self.lost:
            for name in ("lost", "lost_as", "best_mean"):
                del plain[name]
        return plain


def with_lost(
    metric: str, differences: Mapping[int, float], before: float, lost: Sequence[int], lost_as: str, alpha: float
) -> OverSeeds:
    """Over all seeds, those that diverged among them: left out, the others would look better than the recipe is.

    Parameters
    ----------
    before
        The baseline's value: a seed whose rows are all wrong differs by as much downwards.
    lost_as
        `failure`, or `bounds`, which also gives the mean if all their rows were right.

    Source: worst and best case for what is missing, Horowitz and Manski 2000, JASA 95:77-84.
    """
    every = {**differences, **dict.fromkeys(lost, -before)}
    found = over_seeds(metric, {seed: every[seed] for seed in sorted(every)}, alpha)
    if not lost:
        return found
    named = ", ".join(map(str, sorted(lost)))
    note = f"{found.note}; seed {named} diverged and counts as if every row were wrong"
    best = None
    if lost_as == "bounds":
        best = float(np.mean([*differences.values(), *[1 - before] * len(lost)]))
        note += f" (mean {found.mean:+.3f}), or every row right (mean {best:+.3f})"
    return replace(found, lost=tuple(sorted(lost)), lost_as=lost_as, best_mean=best, note=note)


def over_seeds(metric: str, differences: Mapping[int, float], alpha: float = 0.05) -> OverSeeds:
    """Mean over seeds with its t interval, and what so few seeds cannot say.

    Flipping signs of s seeds gives 2^s equally likely results, so the smallest two-sided p-value is 2 / 2^s: three
    seeds never reach 0.05, six do. Then only the plain count is told: "all 3 rose".

    Source: Student 1908; the limit is counting. Agarwal et al. 2021 (arXiv 2108.13264) on few seeds.
    """
    values = np.asarray(list(differences.values()), dtype=np.float64)
    count, rose = len(values), int((values > 0).sum())
    if not count:
        raise ValueError("no seed")
    mean = float(values.mean())
    low = high = p_value = None
    if count > 1:
        error = float(values.std(ddof=1)) / math.sqrt(count)
        reach = float(student.ppf(1 - alpha / 2, count - 1)) * error
        low, high = mean - reach, mean + reach
        p_value = float(2 * student.sf(abs(mean) / error, count - 1)) if error else (0.0 if mean else 1.0)
    which = f"all {count}" if rose == count else f"{rose} of {count}"
    least = 2 / 2**count
    note = f"{which} seeds rose" if count > 1 else "one seed: how much chance there is between seeds is not known"
    if count > 1 and least >= alpha:
        note += f"; without assuming a bell curve {count} seeds cannot reach p < {alpha:g} (at best {least:.2g})"
    return OverSeeds(metric, dict(differences), mean, low, high, p_value, rose, note)


def two_way_interval(sums: Floats, sizes: Floats, alpha: float, seed: int) -> tuple[float, float]:
    """The interval of the mean difference when both the seeds and the rows are drawn anew.

    The two-way bootstrap's ends, stretched for how few seeds there are: a bootstrap of five seeds alone covers about
    84 % where it says 95 %.

    Parameters
    ----------
    sums
        Sum of the rows' differences for each seed and unit. (S, U)
    sizes
        Rows of each unit. (U,)

    Source: the pigeonhole bootstrap, Owen 2007, Annals of Applied Statistics 1:386-411; degrees of freedom of a sum of
    two variances, Satterthwaite 1946, Biometrics Bulletin 2:110-114.
    """
    rng = np.random.default_rng(seed)
    n_seeds, n_units = sums.shape
    means: list[Floats] = []
    for of_units in drawn_weights(n_units, seed):  # (draws, U)
        of_seeds = rng.multinomial(n_seeds, np.full(n_seeds, 1 / n_seeds), size=len(of_units))  # (draws, S)
        means.append(((of_seeds @ sums) * of_units).sum(axis=1) / (n_seeds * (of_units @ sizes)))
    each, rows = sums.sum(axis=1) / sizes.sum(), float(sizes.sum())
    average = sums.mean(axis=0)
    left_out = (average.sum() - average) / (rows - sizes) if n_units > 1 else np.zeros(1)
    return _stretched(np.concatenate(means), each, left_out, alpha)


def two_way_interval_of_counts(before: Floats, after: Floats, alpha: float, seed: int) -> tuple[float, float]:
    """The same for macro F1, whose counts are drawn and not its differences.

    Parameters
    ----------
    before, after
        Counts of the baseline (U, 2, C) and of each seed (S, U, 2, C), as `corpus_metric.Counts` has them.
    """
    rng = np.random.default_rng(seed)
    n_seeds, n_units = after.shape[:2]
    draws: list[Floats] = []
    for of_units in drawn_weights(n_units, seed):
        of_seeds = rng.multinomial(n_seeds, np.full(n_seeds, 1 / n_seeds), size=len(of_units))  # (draws, S)
        base = macro_f1_of(np.tensordot(of_units, before, axes=1))  # (draws,)
        each = np.stack([macro_f1_of(np.tensordot(of_units, one, axes=1)) for one in after], axis=1)  # (draws, S)
        draws.append((of_seeds * (each - base[:, None])).sum(axis=1) / n_seeds)
    rises = macro_f1_of(after.sum(axis=1)) - macro_f1_of(before.sum(axis=0))  # (S,)
    without = macro_f1_of(after.sum(axis=1)[:, None] - after).mean(axis=0)  # (U,)
    left_out = without - macro_f1_of(before.sum(axis=0) - before)
    return _stretched(np.concatenate(draws), np.asarray(rises), np.asarray(left_out), alpha)


def _stretched(draws: Floats, each: Floats, left_out: Floats, alpha: float) -> tuple[float, float]:
    """The draws' percentile ends, as far from the mean as both variances and their degrees of freedom ask for.

    Parameters
    ----------
    each
        The difference of each seed. (S,)
    left_out
        The difference over all seeds with each unit left out. (U,)
    """
    mean, n_seeds, n_units = float(each.mean()), len(each), len(left_out)
    of_seeds = float(each.var(ddof=1)) / n_seeds
    of_units = (n_units - 1) / n_units * float(((left_out - left_out.mean()) ** 2).sum())
    low, high = (float(end) for end in np.quantile(draws, (alpha / 2, 1 - alpha / 2)))
    both = of_seeds + of_units
    if both == 0 or float(draws.var()) == 0:
        return low, high
    freedom = both**2 / (of_seeds**2 / (n_seeds - 1) + of_units**2 / max(n_units - 1, 1))
    stretch = float(student.ppf(1 - alpha / 2, freedom) / norm.ppf(1 - alpha / 2))
    stretch *= max(1.0, math.sqrt(both / float(draws.var())))
    return mean - stretch * max(mean - low, 0.0), mean + stretch * max(high - mean, 0.0)


def are_carried(seeds: OverSeeds, by: float) -> bool:
    """Whether the seeds together carry an improvement that one of them shows.

    Their mean must be at least `by` and their t interval must lie above zero; from five seeds on, the interval that
    draws seeds and rows anew too. "All rose" is no test: without any effect three seeds all rise once in eight times.
    """
    if seeds.low is None:
        return True
    certain = seeds.low > 0 and (seeds.both_low is None or seeds.both_low > 0)
    return certain and seeds.mean >= by - 1e-9
