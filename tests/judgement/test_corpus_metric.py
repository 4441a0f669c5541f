from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import bootstrap
from sklearn.metrics import f1_score

from testigo.judgement import bootstrap_interval, compare_corpus, detectable_effect, value_of
from testigo.judgement.corpus_metric import counts_of, randomisation_test

CLASSES = ["billing", "login", "other", "shipping"]


def answered(n: int, accuracy: float, seed: int, weights: tuple[float, ...] = (4, 2, 1, 1)) -> tuple[list[str], ...]:
    """Targets of unequal classes, and answers that are right with a given chance."""
    rng = np.random.default_rng(seed)
    targets = [CLASSES[k] for k in rng.choice(4, n, p=np.asarray(weights) / sum(weights))]
    answers = [t if rng.random() < accuracy else CLASSES[rng.integers(4)] for t in targets]
    return targets, answers


@pytest.mark.parametrize("seed", range(6))
def test_macro_f1_is_that_of_scikit_learn_over_the_classes_of_the_targets(seed: int) -> None:
    targets, before = answered(60, 0.5, seed)
    after = [t if k % 3 else b for k, (t, b) in enumerate(zip(targets, before, strict=True))]
    found = compare_corpus(targets, before, after)
    for value, outputs in ((found.before, before), (found.after, after)):
        own = f1_score(targets, outputs, labels=sorted(set(targets)), average="macro")
        assert value == pytest.approx(own, abs=1e-12)
    assert found.difference == pytest.approx(found.after - found.before)


def test_an_output_that_is_no_class_is_wrong_and_makes_no_class_of_its_own() -> None:
    targets, right = ["a", "b", "a", "b"], ["a", "b", "a", "b"]
    found = compare_corpus(targets, ["a", "the class is b", "a", ""], right)
    assert found.before == pytest.approx((1 + 0) / 2)
    assert (found.fixed, found.broken, found.both_right, found.both_wrong) == (2, 0, 2, 0)


def test_a_class_without_rows_does_not_count() -> None:
    found = compare_corpus(["a", "a", "b"], ["a", "c", "b"], ["a", "a", "b"])
    assert found.before == pytest.approx((2 / 3 + 1) / 2)
    assert found.after == 1.0


def test_swapping_both_outputs_of_few_units_is_counted_exactly() -> None:
    targets = ["a", "a", "a", "b", "b", "b"]
    found = compare_corpus(targets, ["b", "b", "b", "a", "a", "a"], targets)
    assert found.test == "exact randomisation of rows"
    # Of the 2^6 ways to swap, only the two extreme ones give a difference as large.
    assert found.p_value == pytest.approx(2 / 64)
    assert compare_corpus(targets, targets, targets).p_value == 1.0


def test_drawn_swaps_agree_with_all_swaps() -> None:
    targets, before = answered(24, 0.4, 3)
    after = [t if k % 2 else b for k, (t, b) in enumerate(zip(targets, before, strict=True))]
    sides = [counts_of(targets, side, None, sorted(set(targets))) for side in (before, after)]
    exact, is_exact = randomisation_test(*sides, seed=0)
    assert is_exact
    drawn, is_exact = randomisation_test(*sides, seed=0, exact_units=0)
    assert not is_exact
    assert drawn == pytest.approx(exact, abs=0.01)


def test_rows_of_one_group_are_swapped_and_drawn_together() -> None:
    targets, before = answered(60, 0.3, 1)
    groups = [f"g{k // 20}" for k in range(60)]
    alone, grouped = (compare_corpus(targets, before, targets, groups=g) for g in (None, groups))
    assert grouped.n_units == 3
    assert grouped.test == "exact randomisation of group outputs"
    assert grouped.p_value >= 2 / 8 > alone.p_value
    assert grouped.high - grouped.low > alone.high - alone.low


def test_equal_outputs_leave_open_what_so_few_rows_cannot_know() -> None:
    targets = ["a"] * 30 + ["b"] * 10
    found = compare_corpus(targets, targets, targets)
    assert found.difference == 0
    assert found.low < -0.1
    # The rare class weighs as much as the frequent one: fewer rows of equal weight than there are rows.
    even = compare_corpus(["a"] * 20 + ["b"] * 20, ["a"] * 20 + ["b"] * 20, ["a"] * 20 + ["b"] * 20)
    assert even.low > found.low


def test_many_units_use_the_bootstrap_and_it_is_that_of_scipy() -> None:
    targets, before = answered(240, 0.5, 5)
    after = [t if k % 3 == 0 else b for k, (t, b) in enumerate(zip(targets, before, strict=True))]
    found = compare_corpus(targets, before, after, seed=3)
    assert found.interval == "BCa bootstrap over rows"
    classes = sorted(set(targets))
    arrays = [np.asarray(side) for side in (targets, before, after)]

    def difference(rows: Any) -> float:
        t, b, a = (side[rows.astype(int)] for side in arrays)
        scores = [f1_score(t, side, labels=classes, average="macro", zero_division=np.nan) for side in (a, b)]
        return float(scores[0] - scores[1])

    slow = bootstrap(
        (np.arange(240),), difference, vectorized=False, n_resamples=200, method="BCa", rng=np.random.default_rng(0)
    ).confidence_interval
    assert found.low == pytest.approx(slow.low, abs=0.03)
    assert found.high == pytest.approx(slow.high, abs=0.03)
    assert compare_corpus(targets, before, after, seed=3) == found


def test_the_bootstrap_of_a_mean_is_what_it_was() -> None:
    rises = np.random.default_rng(0).normal(0.1, 1, 300)
    ((low, high),) = bootstrap_interval(rises, np.ones(300), (0.95,), 0)
    assert low < rises.mean() < high
    assert high - low == pytest.approx(2 * 1.96 * rises.std() / math.sqrt(300), rel=0.06)


@pytest.mark.parametrize(("rows", "a_group"), [(120, 1), (120, 4)])
def test_without_effect_few_are_significant_and_intervals_cover(rows: int, a_group: int) -> None:
    groups = [f"g{k // a_group}" for k in range(rows)]
    significant = covered = 0
    trials = 150
    for trial in range(trials):
        targets, before = answered(rows, 0.6, trial)
        rng = np.random.default_rng(10_000 + trial)
        after = [t if rng.random() < 0.6 else CLASSES[rng.integers(4)] for t in targets]
        found = compare_corpus(targets, before, after, groups=groups, seed=trial)
        significant += found.p_value < 0.05
        covered += found.low <= 0 <= found.high
    assert significant <= 0.10 * trials
    assert covered >= 0.90 * trials


def test_detectable_effect_of_a_corpus_metric_shrinks_with_the_square_root_of_the_rows() -> None:
    def lines(n: int) -> list[dict[str, Any]]:
        targets, outputs = answered(n, 0.6, 2)
        return [
            {"row": f"r{k}", "group": f"r{k}", "target": t, "output": o, "scores": {}}
            for k, (t, o) in enumerate(zip(targets, outputs, strict=True))
        ]

    few, many = (detectable_effect(lines(n), "macro_f1", "corpus") for n in (100, 1600))
    assert 0.1 < few < 0.4
    assert few / many == pytest.approx(4, rel=0.25)
    assert detectable_effect(lines(4), "macro_f1", "corpus") == 1.0
    assert value_of(lines(100), "macro_f1", "corpus") == pytest.approx(
        f1_score(*answered(100, 0.6, 2), average="macro")
    )


@pytest.mark.parametrize(
    ("targets", "before", "after", "metric"),
    [([], [], [], "macro_f1"), (["a"], ["a", "b"], ["a"], "macro_f1"), (["a"], ["a"], ["a"], "bleu")],
)
def test_what_cannot_be_compared_is_said(targets: list[str], before: list[str], after: list[str], metric: str) -> None:
    with pytest.raises(ValueError, match=r"targets|none of"):
        compare_corpus(targets, before, after, metric=metric)
