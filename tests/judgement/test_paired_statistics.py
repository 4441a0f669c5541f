from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.stats import norm, ttest_1samp, wilcoxon
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

from testigo.judgement import (
    bootstrap_interval,
    clopper_pearson,
    compare_paired,
    holm,
    mcnemar_exact,
    rule_of_three,
    sign_flip,
    t_interval,
    tango_interval,
)
from testigo.judgement.units import EXACT_UNITS, FEW_UNITS

counts = st.tuples(st.integers(0, 40), st.integers(0, 40), st.integers(1, 80)).map(
    lambda c: (c[0], c[1], c[0] + c[1] + c[2])
)


@pytest.mark.parametrize(
    ("fixed", "broken", "n", "low", "high"),
    [
        # Bentur 2009 and Cavo 2012, as tabled in Fagerland, Lydersen and Laake 2014 (Statistics in Medicine 33:2850)
        # and 2017 (Statistical Analysis of Contingency Tables, chapter 8)
        (1, 7, 21, -0.517, -0.026),
        (6, 16, 161, -0.1240, -0.0054),
    ],
)
def test_tango_gives_the_published_intervals(fixed: int, broken: int, n: int, low: float, high: float) -> None:
    digits = 4 if n == 161 else 3
    assert tuple(round(end, digits) for end in tango_interval(fixed, broken, n)) == (low, high)


def test_tango_without_any_changed_row_has_its_closed_form() -> None:
    z2 = norm.ppf(0.975) ** 2
    for n in (1, 10, 40, 1000):
        assert tango_interval(0, 0, n) == pytest.approx((-z2 / (n + z2), z2 / (n + z2)), abs=1e-9)


def score_by_search(fixed: int, broken: int, n: int, delta: float) -> float:
    """The score statistic with the nuisance found by a search over the likelihood, not by the closed form."""

    def minus_likelihood(q: float) -> float:
        cells = ((fixed, q + delta), (broken, q), (n - fixed - broken, 1 - 2 * q - delta))
        return -sum(count * math.log(max(p, 1e-300)) for count, p in cells if count)

    low, high = max(0.0, -delta), (1 - delta) / 2
    q = minimize_scalar(minus_likelihood, bounds=(low, high), method="bounded", options={"xatol": 1e-12}).x
    return (fixed - broken - n * delta) / math.sqrt(n * (2 * q + delta - delta * delta))


@settings(max_examples=40)
@given(st.tuples(st.integers(1, 40), st.integers(1, 40), st.integers(1, 80)))
def test_tangos_ends_are_where_the_score_test_just_rejects(cells: tuple[int, int, int]) -> None:
    fixed, broken, n = cells[0], cells[1], sum(cells)
    low, high = tango_interval(fixed, broken, n)
    z = norm.ppf(0.975)
    assert score_by_search(fixed, broken, n, low) == pytest.approx(z, abs=1e-3)
    assert score_by_search(fixed, broken, n, high) == pytest.approx(-z, abs=1e-3)


@given(counts, st.sampled_from([0.5, 0.9, 0.95, 0.999]))
def test_tango_holds_the_estimate_turns_with_the_sign_and_grows_with_confidence(
    cells: tuple[int, int, int], confidence: float
) -> None:
    fixed, broken, n = cells
    low, high = tango_interval(fixed, broken, n, confidence)
    assert -1 <= low <= (fixed - broken) / n <= high <= 1
    assert low < high
    turned = tango_interval(broken, fixed, n, confidence)
    assert (-turned[1], -turned[0]) == pytest.approx((low, high), abs=1e-9)
    wider = tango_interval(fixed, broken, n, (1 + confidence) / 2)
    assert wider[0] <= low
    assert high <= wider[1]


@pytest.mark.parametrize("cells", [(0, 40, 40), (40, 0, 40), (1, 0, 1), (0, 1, 1)])
def test_tango_at_the_edges_stays_within_the_scale(cells: tuple[int, int, int]) -> None:
    low, high = tango_interval(*cells)
    assert -1 <= low < high <= 1


def test_tango_refuses_counts_that_do_not_fit() -> None:
    for cells in ((-1, 0, 5), (3, 3, 5), (0, 0, 0)):
        with pytest.raises(ValueError, match="rows"):
            tango_interval(*cells)


@given(counts)
def test_mcnemar_is_the_one_of_statsmodels(cells: tuple[int, int, int]) -> None:
    fixed, broken, n = cells
    table = [[n - fixed - broken, fixed], [broken, 0]]
    expected = mcnemar(table, exact=True).pvalue if fixed + broken else 1.0
    assert mcnemar_exact(fixed, broken) == pytest.approx(min(1.0, expected), abs=1e-12)


def test_mcnemar_gives_the_published_value() -> None:
    assert mcnemar_exact(6, 16) == pytest.approx(0.052479, abs=5e-7)  # Fagerland et al. 2017, chapter 8


@given(st.integers(0, 30), st.integers(1, 30), st.sampled_from([0.9, 0.95]))
def test_clopper_pearson_is_the_one_of_statsmodels(count: int, more: int, confidence: float) -> None:
    n = count + more
    expected = proportion_confint(count, n, 1 - confidence, method="beta")
    assert clopper_pearson(count, n, confidence) == pytest.approx([float(end) for end in expected], abs=1e-10)


def test_the_rule_of_three_is_about_three_over_n_and_exactly_the_one_sided_end() -> None:
    assert rule_of_three(100) == pytest.approx(0.03, abs=0.001)
    assert rule_of_three(100) == pytest.approx(clopper_pearson(0, 100, 0.90)[1])


@settings(max_examples=15)  # statsmodels collects garbage on each call
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_is_the_one_of_statsmodels(p_values: list[float]) -> None:
    expected = multipletests(p_values, method="holm")[1]
    assert holm(p_values) == pytest.approx(list(expected))


def test_holm_of_none_is_none() -> None:
    assert holm([]) == ()


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=8))
def test_sign_flip_counts_all_assignments(values: list[int]) -> None:
    sums = np.asarray(values, dtype=float)
    every = [
        abs(sum(s * v for s, v in zip(signs, values, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(values))
    ]
    assert sign_flip(sums, seed=0) == pytest.approx(np.mean([value >= abs(sum(values)) for value in every]))


@given(st.integers(0, 9), st.integers(0, 5))
def test_sign_flip_of_single_rows_is_mcnemar(fixed: int, broken: int) -> None:
    sums = np.asarray([1.0] * fixed + [-1.0] * broken + [0.0] * 7)
    assert sign_flip(sums, seed=0) == pytest.approx(mcnemar_exact(fixed, broken))


def test_the_monte_carlo_sign_flip_is_near_the_exact_one_seeded_and_never_zero() -> None:
    fixed, broken = 40, 22
    sums = np.asarray([1.0] * fixed + [-1.0] * broken)
    p = sign_flip(sums, seed=1)
    assert p == sign_flip(sums, seed=1)
    assert p == pytest.approx(mcnemar_exact(fixed, broken), abs=0.006)
    assert p != sign_flip(sums, seed=2)
    assert sign_flip(np.ones(200), seed=0) == pytest.approx(1e-4)


def test_sign_flip_agrees_with_scipy_on_ranks() -> None:
    ranks = np.asarray([1, -2, 3, 4, 5, -6, 7, 8, 9, 10], dtype=float)  # Wilcoxon is the sign-flip test of ranks
    assert sign_flip(ranks, seed=0) == pytest.approx(wilcoxon(ranks, method="exact").pvalue)


def test_equal_sums_count_as_equal_in_floating_point() -> None:
    sums = np.asarray([0.1, 0.2, -0.3, 0.1, 0.2, 0.3])
    exact = sign_flip(np.round(10 * sums), seed=0)
    assert sign_flip(sums, seed=0) == exact


def test_t_of_equal_groups_is_the_t_of_their_means() -> None:
    means = np.asarray([0.1, 0.3, -0.1, 0.25, 0.0])
    expected = ttest_1samp(means, 0).confidence_interval(0.95)
    found = t_interval(means * 4, np.full(5, 4.0), 0.95)
    assert found == pytest.approx((expected.low, expected.high))


def test_the_bootstrap_agrees_with_t_where_both_are_right_and_its_draws_are_seeded() -> None:
    rng = np.random.default_rng(0)
    sums, sizes = rng.normal(0.1, 0.3, 400), np.ones(400)
    two, one = bootstrap_interval(sums, sizes, (0.95, 0.90), seed=3)
    assert two == pytest.approx(t_interval(sums, sizes, 0.95), abs=0.003)
    assert one == pytest.approx(t_interval(sums, sizes, 0.90), abs=0.003)
    assert (two, one) == bootstrap_interval(sums, sizes, (0.95, 0.90), seed=3)


def test_a_degenerate_bootstrap_falls_back_and_warns_nobody() -> None:
    sums = np.zeros(300)
    sums[0] = 1.0
    (interval,) = bootstrap_interval(sums, np.ones(300), (0.95,), seed=0)
    assert all(math.isfinite(end) for end in interval)


def test_yes_or_no_without_groups_takes_mcnemar_and_tango() -> None:
    before, after = [0, 0, 0, 1, 1, 0, 0, 1], [1, 1, 1, 1, 0, 0, 1, 1]
    paired = compare_paired(before, after, kind="binary")
    assert (paired.test, paired.interval) == ("exact McNemar", "Tango score")
    assert (paired.fixed, paired.broken, paired.both_right, paired.both_wrong) == (4, 1, 2, 1)
    assert (paired.before, paired.after, paired.difference) == (3 / 8, 6 / 8, 3 / 8)
    assert (paired.low, paired.high) == tango_interval(4, 1, 8)
    assert (paired.lower_bound, paired.upper_bound) == tango_interval(4, 1, 8, 0.90)
    assert compare_paired(before, after, kind="binary", groups=list("abcdefgh")) == paired


def test_rows_of_a_group_are_one_unit() -> None:
    # One customer's forty rows all turned right: forty rows of evidence, or one?
    before, after = [0] * 50, [1] * 40 + [0] * 10
    alone = compare_paired(before, after, kind="binary")
    together = compare_paired(before, after, kind="binary", groups=["big"] * 40 + [f"c{i}" for i in range(10)])
    assert alone.p_value < 1e-6
    assert alone.low > 0.5
    assert together.n_units == 11
    assert together.p_value == 1.0
    assert together.low < 0
    assert "group" in together.test
    assert "groups" in together.interval


def test_scores_between_take_the_sign_flip_and_say_what_was_drawn() -> None:
    rng = np.random.default_rng(0)
    for n, exact, interval in (
        (EXACT_UNITS, "exact", "t over rows"),
        (FEW_UNITS, "Monte-Carlo", "BCa bootstrap over rows"),
    ):
        before = rng.random(n)
        after = np.clip(before + rng.normal(0.05, 0.1, n), 0, 1)
        paired = compare_paired(list(before), list(after), kind="bounded")
        assert paired.test == f"{exact} sign-flip of rows"
        assert paired.interval == interval
        assert paired.low < paired.difference < paired.high
        assert paired.low < paired.lower_bound < paired.upper_bound < paired.high


@pytest.mark.parametrize("changed", [0, 1, 3])
@pytest.mark.parametrize("n", [10, 40, 400])
def test_few_changes_never_make_a_certainty(n: int, changed: int) -> None:
    before = [0.5] * n
    after = [1.0] * changed + [0.5] * (n - changed)
    paired = compare_paired(before, after, kind="bounded")
    unseen = 1 - 0.025 ** (1 / n)
    assert paired.low <= paired.difference - unseen + 1e-12
    assert paired.high >= min(1, paired.difference + unseen * (1 - paired.difference)) - 1e-12
    assert paired.low >= -1
    assert paired.high <= 1


def test_a_single_row_is_judged_without_a_crash() -> None:
    for kind in ("binary", "bounded"):
        paired = compare_paired([0], [1], kind=kind)
        assert paired.p_value == 1.0
        assert paired.low < 0.0 or kind == "bounded"
        assert paired.high == 1.0


@pytest.mark.parametrize(
    ("before", "after", "kind", "groups"),
    [
        ([0, 1], [1], "binary", None),
        ([], [], "binary", None),
        ([0.5], [1], "binary", None),
        ([math.nan], [1], "bounded", None),
        ([0], [1.5], "bounded", None),
        ([0], [1], "rank", None),
        ([0, 1], [1, 1], "binary", ["a"]),
    ],
)
def test_what_is_no_pair_of_scores_is_refused(
    before: list[float], after: list[float], kind: str, groups: list[str] | None
) -> None:
    with pytest.raises(ValueError, match=r"."):
        compare_paired(before, after, kind=kind, groups=groups)


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.integers(0, 5)), min_size=1, max_size=30),
    st.sampled_from(["binary", "bounded"]),
)
def test_any_scores_give_finite_ordered_numbers(rows: list[tuple[float, float, int]], kind: str) -> None:
    scores = [(round(b), round(a)) if kind == "binary" else (b, a) for b, a, _ in rows]
    paired = compare_paired([b for b, _ in scores], [a for _, a in scores], kind=kind, groups=[g for _, _, g in rows])
    assert -1 <= paired.low <= paired.difference + 1e-9
    assert paired.difference - 1e-9 <= paired.high <= 1
    assert 0 < paired.p_value <= 1
    assert paired.fixed + paired.broken + paired.both_right + paired.both_wrong == paired.n == len(rows)
