"""Before training: how likely is it that these rows would show what was registered? By simulation, from the baseline.

Campaigns are drawn again and again: rows like these, a baseline like this one, and beside it another model that is as
good, as much alike within groups, and better by a given rise. Its answers do not depend on the baseline's, which is the
worst case in practice: real pairs agree more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, norm
from scipy.stats import t as student

from testigo.judgement.bootstrap import Floats
from testigo.judgement.corpus_metric import Counts, jackknife, standard_error
from testigo.judgement.lines import Line, answer_of
from testigo.judgement.metric import value_of
from testigo.judgement.paired import checked_scores
from testigo.judgement.power import correlation_within
from testigo.judgement.units import EXACT_UNITS, sign_flip

CAMPAIGNS: Final = 2_000
"""Simulated campaigns for one chance: its standard error is 1.1 points at most."""
CAMPAIGNS_OF_A_CORPUS: Final = 400
"""The same where each needs a jackknife: 2.5 points at most."""
POWER: Final = 0.8
_STEPS: Final = 8
_ROUNDING: Final = 1e-9
Shown = NDArray[np.bool_]


@dataclass(frozen=True)
class Foresight:
    """What these rows can show of one registered improvement.

    Attributes
    ----------
    chance
        Of *shown* where the true rise is exactly the registered one, `by`. It is one half at most, because half of all
        campaigns observe a little less than the truth.
    shown_from
        The true rise that is *shown* in 80 % of campaigns; None where none is.
    detectable
        The true rise that is told from chance in 80 % of campaigns, whatever was registered; None where none is.
    room
        How far the metric can rise at all.
    """

    metric: str
    by: float
    chance: float
    shown_from: float | None
    detectable: float | None
    room: float
    n: int
    n_units: int

    def to_json(self) -> dict[str, Any]:
        """All fields as a JSON object."""
        return asdict(self)


def foresee(lines: Sequence[Line], metric: str, kind: str, by: float, alpha: float = 0.05, seed: int = 0) -> Foresight:
    """What a comparison on the baseline's own rows would show.

    Source: power by simulation, Card et al. 2020 (arXiv 2010.06595); worst-case independence, Miller 2024
    (arXiv 2411.00640), section 5.
    """
    groups = [str(line.get("group") or line["row"]) for line in lines]
    if kind == "corpus":
        targets = [str(line["target"]) for line in lines]
        world = corpus_world(targets, [answer_of(line) for line in lines], groups, alpha, seed)
    else:
        world = row_world([float(line["scores"][metric]) for line in lines], kind, groups, alpha, seed)
    return Foresight(
        metric=metric,
        by=by,
        chance=world.chance(by, by),
        shown_from=world.rise_for(by),
        detectable=world.rise_for(0.0),
        room=max(0.0, 1.0 - value_of(lines, metric, kind)),
        n=len(lines),
        n_units=world.n_units,
    )


@dataclass(frozen=True)
class World:
    """Simulated campaigns: `shown(rise, by)` says of each whether it would be *shown*."""

    shown: Callable[[float, float], Shown]
    room: float
    n_units: int
    alpha: float

    def chance(self, rise: float, by: float) -> float:
        """Of *shown*, where the truth rises so far."""
        return float(self.shown(min(rise, self.room), by).mean()) if self._can() else 0.0

    def rise_for(self, by: float, power: float = POWER) -> float | None:
        """The smallest true rise that is *shown* with this power; None where none is."""
        if not self._can() or self.chance(self.room, by) < power:
            return None
        low, high = 0.0, self.room
        for _ in range(_STEPS):  # the same random numbers each time: the chance rises with the rise
            middle = (low + high) / 2
            low, high = (low, middle) if self.chance(middle, by) >= power else (middle, high)
        return high

    def _can(self) -> bool:
        """Even if every unit rose, the exact test would have to reach alpha."""
        return 2 * 0.5**self.n_units < self.alpha and self.room > _ROUNDING


def row_world(
    scores: Sequence[float],
    kind: str,
    groups: Sequence[Hashable] | None = None,
    alpha: float = 0.05,
    seed: int = 0,
    *,
    discordance: float | None = None,
    campaigns: int = CAMPAIGNS,
) -> World:
    """Campaigns over the baseline's rows, for a metric that each row has.

    Parameters
    ----------
    scores, kind, groups, alpha, discordance
        As `power.minimum_detectable_effect` takes them. Rows that are not among the discordant keep the baseline's
        answer before the rise.
    """
    own = checked_scores(scores, kind)
    unit, sizes = _units(groups, len(own))
    campaigns = max(50, min(campaigns, 4_000_000 // len(own)))
    correlation = correlation_within(own, groups)
    latent, other = (_latent(unit, correlation, campaigns, seed + k) for k in range(2))  # (D, n)
    rng = np.random.default_rng(seed + 2)
    lifted = rng.random(latent.shape, dtype=np.float32)
    kept = None if discordance is None else rng.random(latent.shape, dtype=np.float32) >= discordance
    quantiles, mean = np.sort(own), float(own.mean())

    def like_own(shares: NDArray[np.float32]) -> Floats:
        return np.asarray(quantiles[np.minimum((shares * len(own)).astype(np.intp), len(own) - 1)])

    before, drawn = like_own(other), like_own(latent)
    drawn = drawn if kept is None else np.where(kept, before, drawn)

    def after_of(rise: float) -> Floats:
        if kind == "binary" and kept is None:  # groups stay as alike as they are
            return np.asarray(latent > 1 - mean - rise, dtype=np.float64)
        return np.asarray(np.where(lifted < (rise / (1 - mean) if mean < 1 else 0.0), 1.0, drawn))

    def shown(rise: float, by: float) -> Shown:
        rises = after_of(rise) - before  # (D, n)
        large = rises.mean(axis=1) >= by - _ROUNDING
        if kind == "binary" and len(sizes) == len(own):
            return np.asarray(large & _mcnemar(rises, alpha))
        return np.asarray(large & _of_units(_sums(rises, unit, len(sizes)), sizes, alpha))

    return World(shown, 1 - mean, len(sizes), alpha)


def corpus_world(
    targets: Sequence[str],
    outputs: Sequence[str],
    groups: Sequence[Hashable] | None = None,
    alpha: float = 0.05,
    seed: int = 0,
    *,
    campaigns: int = CAMPAIGNS_OF_A_CORPUS,
) -> World:
    """The same for macro F1: each class is answered as the baseline answers it, and a share of the errors is mended."""
    classes = sorted(set(targets))
    number = {name: k for k, name in enumerate(classes)}
    truth = np.asarray([number[name] for name in targets])
    given = np.asarray([number.get(name, len(classes)) for name in outputs])  # what is no class is one more
    unit, sizes = _units(groups, len(truth))
    right = (truth == given).astype(np.float64)
    campaigns = max(50, min(campaigns, 1_000_000 // len(truth)))
    correlation = correlation_within(right, groups)
    latent, other = (_latent(unit, correlation, campaigns, seed + k) for k in range(2))
    lifted = np.random.default_rng(seed + 2).random(latent.shape, dtype=np.float32)

    def like_own(shares: NDArray[np.float32]) -> NDArray[np.intp]:
        drawn = np.empty(shares.shape, dtype=np.intp)
        for k in range(len(classes)):  # right answers of a class first: units alike in shares are alike in being right
            of_class = truth == k
            pool = given[of_class]
            pool = pool[np.argsort(pool != k, kind="stable")]
            places = (shares[:, of_class] * len(pool)).astype(np.intp)
            drawn[:, of_class] = pool[np.minimum(places, len(pool) - 1)]
        return drawn

    def counts_of_all(answers: NDArray[np.intp]) -> list[Counts]:
        return [_counts(truth, one, unit, len(sizes), len(classes)) for one in answers]

    before, drawn = counts_of_all(like_own(other)), like_own(latent)

    def mended(share: float) -> NDArray[np.intp]:
        return np.asarray(np.where(lifted < share, truth, drawn))

    at = np.linspace(0, 1, 11)
    heights = [float(np.mean([one.macro_f1 for one in counts_of_all(mended(share)[:60])])) for share in at]

    def shown(rise: float, by: float) -> Shown:
        answers, found = mended(float(np.interp(heights[0] + rise, heights, at))), []
        for old, new in zip(before, counts_of_all(answers), strict=True):
            difference = new.macro_f1 - old.macro_f1
            reach = float(student.ppf(1 - alpha / 2, len(sizes) - 1)) * standard_error(jackknife(old, new))
            found.append(difference >= by - _ROUNDING and difference > reach)
        return np.asarray(found)

    return World(shown, 1 - heights[0], len(sizes), alpha)


def rows_for(n: int, reached: float | None, wanted: float) -> int | None:
    """How many rows would reach what so many reach now at another size; None where nothing can be said.

    Source: every standard error here falls with the square root of the rows.
    """
    if reached is None or wanted <= 0:
        return None
    return math.ceil(n * (reached / wanted) ** 2) if reached > wanted else n


def rows_for_margin(n: int, decidable: float, within: float, alpha: float) -> int:
    """Rows from which on a guard of this margin would be *kept* in 80 % of campaigns where nothing changed.

    Source: as `rows_for`; never fewer than z² (1 − within) / within, below which unchanged rows leave the margin open
    (Tango 1998).
    """
    z = float(norm.ppf(1 - alpha))
    least = math.floor(z * z * (1 - within) / within) + 1 if within > 0 else n
    return max(n if decidable <= within else math.ceil(n * (decidable / within) ** 2), least) if within > 0 else n


def _units(groups: Sequence[Hashable] | None, n: int) -> tuple[NDArray[np.intp], Floats]:
    if groups is None:
        return np.arange(n), np.ones(n)
    numbers: dict[Hashable, int] = {}
    unit = np.asarray([numbers.setdefault(group, len(numbers)) for group in groups])
    return unit, np.bincount(unit).astype(np.float64)


def _latent(unit: NDArray[np.intp], correlation: float, campaigns: int, seed: int) -> NDArray[np.float32]:
    """Uniform numbers of the rows, of which two in one group are the same with the chance `correlation`. (D, n)"""
    rng = np.random.default_rng(seed)
    own = rng.random((campaigns, len(unit)), dtype=np.float32)
    n_units = int(unit.max()) + 1
    if n_units == len(unit) or correlation <= 0:
        return own
    common = rng.random((campaigns, n_units), dtype=np.float32)
    joins = rng.random((campaigns, len(unit)), dtype=np.float32) < math.sqrt(correlation)
    return np.where(joins, common[:, unit], own)


def _mcnemar(rises: Floats, alpha: float) -> Shown:
    """Whether more were fixed than broken, by the exact test and by Tango's interval, whose score at 0 is McNemar's."""
    fixed, broken = (rises > 0).sum(axis=1), (rises < 0).sum(axis=1)
    changed = fixed + broken
    p = 2 * binom.cdf(np.minimum(fixed, broken), np.maximum(changed, 1), 0.5)
    score = (fixed - broken) / np.sqrt(np.maximum(changed, 1))
    return np.asarray((p < alpha) & (score > norm.ppf(1 - alpha / 2)))


def _of_units(sums: Floats, sizes: Floats, alpha: float) -> Shown:
    """Whether the mean lies above 0 by t over units, and where few changed by the exact test too."""
    rows, units = float(sizes.sum()), len(sizes)
    mean = sums.sum(axis=1, keepdims=True) / rows
    shifts = (sums - mean * sizes) / (rows - sizes)
    error = np.sqrt((units - 1) / units * (shifts**2).sum(axis=1))
    found = mean[:, 0] > student.ppf(1 - alpha / 2, units - 1) * error
    for n in np.flatnonzero(found & ((sums != 0).sum(axis=1) <= EXACT_UNITS)):
        found[n] = sign_flip(sums[n], seed=0) < alpha
    return np.asarray(found)


def _sums(rises: Floats, unit: NDArray[np.intp], n_units: int) -> Floats:
    """(D, n) summed over units. (D, U)"""
    order = np.argsort(unit, kind="stable")
    starts = np.searchsorted(unit[order], np.arange(n_units))
    return np.add.reduceat(rises[:, order], starts, axis=1)


def _counts(
    truth: NDArray[np.intp], given: NDArray[np.intp], unit: NDArray[np.intp], n_units: int, n_classes: int
) -> Counts:
    def at(side: int, known: NDArray[np.bool_], classes: NDArray[np.intp]) -> NDArray[np.intp]:
        return np.asarray((unit[known] * 2 + side) * n_classes + classes[known])

    hit, every = truth == given, np.ones(len(truth), dtype=bool)
    places = np.concatenate([at(1, every, truth), at(1, given < n_classes, given), at(0, hit, truth)])
    found = np.bincount(places, minlength=n_units * 2 * n_classes).astype(np.float64)
    return Counts(found.reshape(n_units, 2, n_classes))
