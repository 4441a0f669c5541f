"""Campaigns with a known truth, drawn at random: rows, groups, two models' answers, several seeds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from testigo.judgement.corpus_metric import macro_f1_of

Floats = NDArray[np.float64]
WITHIN: Final = 0.05
SHARES: Final = (0.5, 0.3, 0.2)
CLASSES: Final = ("a", "b", "c")


@dataclass(frozen=True)
class Case:
    """One kind of campaign.

    Attributes
    ----------
    sizes
        Rows of each unit, drawn anew in each campaign.
    mean
        Of the baseline.
    seed_spread
        Standard deviation of the true effect from seed to seed.
    rise
        The true effect whose power is looked at, and the registered `by` beside it.
    only_null
        Whether only campaigns without effect are simulated.
    share_of_effects
        Falls and rises for each campaign without effect: less where each takes long.
    """

    name: str
    kind: str
    sizes: Callable[[np.random.Generator], NDArray[np.intp]]
    mean: float = 0.6
    n_seeds: int = 1
    seed_spread: float = 0.0
    rise: float = 0.2
    by: float = 0.05
    within: float = WITHIN
    share_of_effects: float = 1.0
    only_null: bool = False


def single(n: int) -> Callable[[np.random.Generator], NDArray[np.intp]]:
    """Rows that are units of their own."""
    return partial(_single, n)


def _single(n: int, rng: np.random.Generator) -> NDArray[np.intp]:
    return np.ones(n, dtype=np.intp)


def ragged(units: int, rows: float) -> Callable[[np.random.Generator], NDArray[np.intp]]:
    """Groups of unequal size, most of them small."""
    return partial(_ragged, units, rows)


def _ragged(units: int, rows: float, rng: np.random.Generator) -> NDArray[np.intp]:
    return np.minimum(rng.geometric(1 / rows, units), int(4 * rows))


@dataclass(frozen=True)
class Draw:
    """One campaign's rows: scores, or answers where the metric is of all rows together; and the truth about them."""

    before: Any
    after: list[Any]
    targets: Any
    groups: list[int] | None
    truths: list[float]
    on_these_rows: float | None


def draw(case: Case, rng: np.random.Generator, effect: float, agree: float) -> Draw:
    """One campaign of a case, whose true effect, as a mean over seeds, is `effect`."""
    sizes = case.sizes(rng)
    unit = np.repeat(np.arange(len(sizes)), sizes)
    groups = None if np.all(sizes == 1) else [int(one) for one in unit]
    effects = effect + rng.normal(0, case.seed_spread, case.n_seeds) if case.seed_spread else [effect] * case.n_seeds
    make = _answers if case.kind == "corpus" else _scores
    return make(case, rng, unit, groups, [float(one) for one in effects], agree)


def _scores(
    case: Case, rng: np.random.Generator, unit: Any, groups: list[int] | None, effects: list[float], agree: float
) -> Draw:
    shape = (case.mean * 3, (1 - case.mean) * 3)

    def fresh() -> Floats:
        if case.kind == "bounded":
            own, common = rng.beta(*shape, len(unit)), rng.beta(*shape, unit[-1] + 1)[unit]
            return own if groups is None else np.where(rng.random(len(unit)) < 0.5, common, own)
        rate = np.full(len(unit), case.mean) if groups is None else rng.beta(*shape, unit[-1] + 1)[unit]
        return np.asarray(rng.random(len(unit)) < rate, dtype=np.float64)

    before, answers = fresh(), fresh()
    same = rng.random(len(unit)) < agree
    start = np.where(same, before, answers)
    after = []
    for effect in effects:
        share = effect / (1 - case.mean) if effect > 0 else -effect / case.mean
        after.append(np.where(rng.random(len(unit)) < share, float(effect > 0), start))
    return Draw(before, after, None, groups, effects, _expected(before, start, case))


def _expected(before: Floats, start: Floats, case: Case) -> float | None:
    """The mean difference over all seeds on these rows, where the true effect is none."""
    if case.n_seeds == 1 or not case.seed_spread:
        return None
    z = np.linspace(-4, 4, 801)
    weight = np.exp(-(z**2) / 2)
    e = z * case.seed_spread
    up, down = (np.maximum(e, 0) / (1 - case.mean), np.maximum(-e, 0) / case.mean)
    lifted = (weight * up).sum() / weight.sum() * (1 - start.mean())
    lowered = (weight * down).sum() / weight.sum() * start.mean()
    return float(start.mean() - before.mean() + lifted - lowered)


def _answers(
    case: Case, rng: np.random.Generator, unit: Any, groups: list[int] | None, effects: list[float], agree: float
) -> Draw:
    truth = rng.choice(len(CLASSES), len(unit), p=SHARES)
    wrong = (truth + rng.integers(1, len(CLASSES), len(unit))) % len(CLASSES)
    shape = (case.mean * 3, (1 - case.mean) * 3)

    def fresh() -> Any:
        rate = np.full(len(unit), case.mean) if groups is None else rng.beta(*shape, unit[-1] + 1)[unit]
        return np.where(rng.random(len(unit)) < rate, truth, (truth + rng.integers(1, 3, len(unit))) % 3)

    before, answers = fresh(), fresh()
    start = np.where(rng.random(len(unit)) < agree, before, answers)
    after, truths = [], []
    for effect in effects:
        accuracy = accuracy_of(effect, case.mean)
        share = (accuracy - case.mean) / (1 - case.mean if accuracy > case.mean else case.mean)
        moved = rng.random(len(unit)) < abs(share)
        after.append(np.where(moved, truth if share > 0 else np.where(start == truth, wrong, start), start))
        truths.append(effect)
    return Draw(before, after, truth, groups, truths, None)


def population_f1(accuracy: float) -> float:
    """Macro F1 of a model that is right so often in each class and else names another one at random."""
    shares = np.asarray(SHARES)
    right = shares * accuracy
    given = right + (1 - accuracy) / 2 * (1 - shares)
    return float(macro_f1_of(np.stack([right, given + shares])))


def accuracy_of(effect: float, mean: float) -> float:
    """The accuracy whose macro F1 lies so far above that of `mean`."""
    wanted, low, high = population_f1(mean) + effect, 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if population_f1(middle) < wanted else (low, middle)
    return low
