"""Before training: which difference could these rows detect at all?"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm

from testigo.judgement.bootstrap import Floats
from testigo.judgement.corpus_metric import counts_of, macro_f1_of, standard_error
from testigo.judgement.lines import Line, answer_of
from testigo.judgement.paired import checked_scores


def detectable_effect(lines: Sequence[Line], metric: str, kind: str, alpha: float = 0.05, power: float = 0.8) -> float:
    """The smallest rise of any metric that a comparison on these rows would find, from the baseline's own lines.

    Of a corpus metric: (z₁₋α/₂ + z_power) · √2 · standard error of the baseline's own value, by the jackknife over
    units; the other model's answers are taken as independent and as spread out. 1.0 means that nothing can be detected.

    Source: Miller 2024 (arXiv 2411.00640), section 5, with the jackknife of Efron and Stein 1981.
    """
    groups = [str(line.get("group") or line["row"]) for line in lines]
    if kind != "corpus":
        return minimum_detectable_effect(
            [float(line["scores"][metric]) for line in lines], kind=kind, groups=groups, alpha=alpha, power=power
        )
    targets = [str(line["target"]) for line in lines]
    counts = counts_of(targets, [answer_of(line) for line in lines], groups, sorted(set(targets)))
    if 2 * 0.5 ** len(counts.values) >= alpha:
        return 1.0
    error = standard_error(macro_f1_of(counts.values.sum(axis=0) - counts.values))
    reach = float(norm.ppf(1 - alpha / 2) + norm.ppf(power)) * math.sqrt(2) * error
    return reach if 0 < reach <= 1 - counts.macro_f1 else 1.0


def minimum_detectable_effect(
    scores: Sequence[float],
    kind: str,
    groups: Sequence[Hashable] | None = None,
    alpha: float = 0.05,
    power: float = 0.8,
    *,
    discordance: float | None = None,
) -> float:
    """The smallest rise that a comparison on these rows would find with this power, from the baseline's own scores.

    Parameters
    ----------
    scores
        The baseline's score of each row, 0 to 1.
    groups
        The group of each row; rows of a group that agree count for less than their number.
    discordance
        The share of rows whose answer changes, where known. Otherwise the two models' answers are taken as
        independent, which is the worst case in practice: real pairs agree more, and then less can be detected.

    Returns
    -------
    float
        A share between 0 and 1. 1.0 means that these rows can detect nothing: too few units for any p below alpha, or
        a baseline so near to 1 that no detectable rise is left.

    Source: Miller 2024 (arXiv 2411.00640), section 5: δ = (z₁₋α/₂ + z_power) · sd / √n, with the variance of the
    difference at that δ. 1,000 rows and 10 % discordance give 2.8 points.
    """
    values = checked_scores(scores, kind)
    units = len(values) if groups is None else len(set(groups))
    if 2 * 0.5**units >= alpha:  # even if every unit rose, the exact test would not reach alpha
        return 1.0
    reach = float(norm.ppf(1 - alpha / 2) + norm.ppf(power))
    return _solve(values, groups, reach, discordance)


def smallest_decidable_margin(
    scores: Sequence[float],
    kind: str,
    groups: Sequence[Hashable] | None = None,
    alpha: float = 0.05,
    power: float = 0.8,
    *,
    discordance: float | None = None,
) -> float:
    """The smallest margin of a guard that would be *kept* with this power if nothing had changed at all.

    A guard with a smaller `within` is likely to end *undecidable*. 1.0 means that no margin is decidable.

    Source: the non-inferiority form of `minimum_detectable_effect`, one-sided; never below what an interval without
    any changed row leaves open, z² / (n + z²) (Tango 1998).
    """
    values = checked_scores(scores, kind)
    z = float(norm.ppf(1 - alpha))
    n = _effective_rows(values, groups)
    spread = _variance_of_difference(values, 0.0, discordance)
    return min(1.0, max((z + float(norm.ppf(power))) * math.sqrt(spread / n), z * z / (n + z * z)))


def _solve(values: Floats, groups: Sequence[Hashable] | None, reach: float, discordance: float | None) -> float:
    n = _effective_rows(values, groups)

    def lacking(delta: float) -> float:
        return delta * delta * n - reach * reach * _variance_of_difference(values, delta, discordance)

    room = 1.0 - float(values.mean())  # no metric rises above 1
    room = room if discordance is None else min(room, discordance)
    if room < 1e-6 or lacking(room) < 0:
        return 1.0
    return float(brentq(lacking, 1e-9, room, xtol=1e-9)) if lacking(1e-9) < 0 else 1e-9


def _variance_of_difference(values: Floats, delta: float, discordance: float | None) -> float:
    """Variance of one row's difference when the mean rises by delta.

    Independent answers: the two variances add; a score's variance is a share of p(1 − p) that stays what it was.
    """
    if discordance is not None:
        return max(discordance - delta * delta, 0.0)
    p = float(values.mean())
    q = min(1.0, p + delta)
    share = float(values.var()) / (p * (1 - p)) if 0 < p < 1 else 1.0
    return share * (p * (1 - p) + q * (1 - q))


def _effective_rows(values: Floats, groups: Sequence[Hashable] | None) -> float:
    """How many independent rows the rows are worth: n / (1 + (m − 1) · correlation within groups).

    Source: Kish 1965, Survey Sampling; m = Σ size² / n for ragged groups.
    """
    n = len(values)
    if groups is None or len(set(groups)) == n:
        return float(n)
    sizes = np.asarray(list(Counter(groups).values()), dtype=np.float64)
    m = float((sizes**2).sum() / n)
    return n / (1 + (m - 1) * correlation_within(values, groups))


def correlation_within(values: Floats, groups: Sequence[Hashable] | None) -> float:
    """How much alike the scores of one group are, from 0 to 1; 0 where every row is its own group.

    Where the scores do not vary they say nothing about it; one half is then assumed.

    Source: the ANOVA estimator of the intraclass correlation, Fisher 1925; m = Σ size² / n for ragged groups.
    """
    n = len(values)
    if groups is None or len(set(groups)) == n:
        return 0.0
    numbers: dict[Hashable, int] = {}
    unit = np.asarray([numbers.setdefault(group, len(numbers)) for group in groups])
    sizes = np.bincount(unit).astype(np.float64)
    units, m = len(sizes), float((sizes**2).sum() / n)
    means = np.bincount(unit, weights=values) / sizes
    within = float(((values - means[unit]) ** 2).sum())
    between = float((sizes * (means - values.mean()) ** 2).sum())
    if within + between == 0 or units < 2:
        return 0.5
    mean_within, mean_between = within / (n - units), between / (units - 1)
    usual = (n - m) / (units - 1)
    correlation = (mean_between - mean_within) / (mean_between + (usual - 1) * mean_within)
    return min(1.0, max(0.0, correlation))
