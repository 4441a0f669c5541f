from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from testigo.judgement import (
    Paired,
    compare_paired,
    decide_guard,
    decide_improvement,
    minimum_detectable_effect,
    over_seeds,
    smallest_decidable_margin,
    two_way_interval,
)


def paired(fixed: int, broken: int, n: int, *, right: int = 0) -> Paired:
    before = [0] * fixed + [1] * (broken + right) + [0] * (n - fixed - broken - right)
    after = [1] * fixed + [0] * broken + [1] * right + [0] * (n - fixed - broken - right)
    return compare_paired(before, after, kind="binary")


def test_a_large_and_certain_rise_is_shown() -> None:
    assert decide_improvement(paired(20, 2, 40), by=0.10, alpha=0.05) == "shown"


def test_a_certain_rise_below_the_registered_effect_is_not_shown() -> None:
    small = paired(60, 20, 1000)  # +0.04, p far below 0.05
    assert small.p_value < 0.001
    assert decide_improvement(small, by=0.10, alpha=0.05) == "refuted"
    assert decide_improvement(small, by=0.045, alpha=0.05) == "not decided"
    assert decide_improvement(small, by=0.04, alpha=0.05) == "shown"


def test_a_large_rise_by_chance_is_not_shown() -> None:
    assert decide_improvement(paired(4, 0, 10), by=0.10, alpha=0.05) == "not decided"


def test_a_fall_is_refuted() -> None:
    assert decide_improvement(paired(2, 20, 40), by=0.10, alpha=0.05) == "refuted"


def test_a_difference_of_exactly_the_registered_effect_is_not_lost_to_rounding() -> None:
    rise = replace(paired(20, 2, 40), difference=0.35 - 0.25, low=0.01, p_value=0.001)
    assert rise.difference < 0.10
    assert decide_improvement(rise, by=0.10, alpha=0.05) == "shown"


def test_a_corrected_p_value_decides_in_place_of_the_own_one() -> None:
    rise = paired(9, 1, 40)
    assert decide_improvement(rise, by=0.10, alpha=0.05) == "shown"
    assert decide_improvement(rise, by=0.10, alpha=0.05, p_value=0.2) == "not decided"


def test_a_hair_on_forty_rows_is_never_shown() -> None:
    rng = np.random.default_rng(0)
    before = np.full(40, 0.5)
    for seed in range(20):
        after = before + rng.permutation(np.r_[np.full(20, 0.0011), np.full(20, -0.0009)])
        result = compare_paired(list(before), list(after), kind="bounded", seed=seed)
        assert result.after == pytest.approx(0.5001)
        assert decide_improvement(result, by=0.01, alpha=0.05) == "refuted"
    every_row = compare_paired([0.5] * 40, [0.5001] * 40, kind="bounded")
    assert every_row.p_value < 0.001
    assert decide_improvement(every_row, by=0.01, alpha=0.05) != "shown"


def test_a_random_models_small_rise_on_few_rows_is_not_worth_the_word() -> None:
    before, after = [0.003] * 20, [0.003] * 16 + [0.2, 0.2, 0.2, 0.25]
    result = compare_paired(before, after, kind="bounded")
    assert result.difference == pytest.approx(0.044, abs=0.01)
    assert decide_improvement(result, by=0.02, alpha=0.05) == "not decided"
    assert decide_improvement(result, by=0.30, alpha=0.05) == "refuted"


@pytest.mark.parametrize(
    ("fixed", "broken", "n", "within", "verdict"),
    [
        (0, 0, 400, 0.02, "kept"),
        (0, 0, 40, 0.02, "undecidable"),  # 40 rows cannot exclude a fall of 2 points even when none fell
        (1, 3, 40, 0.02, "undecidable"),  # 5 points down, within noise
        (0, 12, 40, 0.02, "broken"),
        (5, 0, 40, 0.02, "kept"),
        (10, 60, 1000, 0.10, "kept"),  # certainly lower, and within what was allowed
    ],
)
def test_a_guard_is_a_non_inferiority_test(fixed: int, broken: int, n: int, within: float, verdict: str) -> None:
    assert decide_guard(paired(fixed, broken, n, right=n - fixed - broken), within) == verdict


def test_a_guards_bound_is_one_sided() -> None:
    result = paired(0, 0, 140, right=140)
    assert result.low < -0.02 < result.lower_bound
    assert decide_guard(result, 0.02) == "kept"


def test_the_detectable_effect_of_a_thousand_rows_with_a_tenth_changing_is_2_8_points() -> None:
    scores = [1.0] * 500 + [0.0] * 500
    assert minimum_detectable_effect(scores, "binary", discordance=0.10) == pytest.approx(0.028, abs=0.0005)


@pytest.mark.parametrize(("start", "n", "groups"), [(0.0, 40, 1), (0.5, 200, 1), (0.3, 200, 5), (0.9, 300, 1)])
def test_an_effect_of_the_detectable_size_is_found_about_as_often_as_was_said(
    start: float, n: int, groups: int
) -> None:
    rng = np.random.default_rng(4)
    names = [i // groups for i in range(n)]
    level = np.repeat(rng.random(n // groups), groups)  # rows of a group agree: one draw a group

    def answers(p: float) -> list[float]:
        draws = np.repeat(rng.random(n // groups), groups)
        return [float(x) for x in draws < p]

    baseline = [float(x) for x in level < start]
    effect = minimum_detectable_effect(baseline, "binary", names if groups > 1 else None)
    assert 0 < effect < 1
    mean = float(np.mean(baseline))
    found = [
        compare_paired(answers(mean), answers(mean + effect), kind="binary", groups=names, seed=i) for i in range(60)
    ]
    share = np.mean([result.p_value < 0.05 and result.difference > 0 for result in found])
    assert 0.6 <= share <= 0.97


def test_groups_that_agree_count_for_less_than_their_rows() -> None:
    scores = [float(i // 10 % 2) for i in range(400)]
    alone = minimum_detectable_effect(scores, "binary")
    grouped = minimum_detectable_effect(scores, "binary", [i // 10 for i in range(400)])
    assert grouped > 2 * alone
    mixed = minimum_detectable_effect(scores, "binary", list(np.random.default_rng(0).permutation(400) // 10))
    assert mixed < grouped / 1.5


@pytest.mark.parametrize("scores", [[0.0] * 5, [0.0, 1.0] * 2, [1.0] * 100])
def test_too_few_units_or_nothing_left_to_gain_is_told_as_one(scores: list[float]) -> None:
    assert minimum_detectable_effect(scores, "binary") == 1.0


def test_with_five_groups_nothing_can_be_shown_however_many_rows() -> None:
    assert minimum_detectable_effect([0.0] * 500, "binary", [i % 5 for i in range(500)]) == 1.0


def test_more_rows_detect_smaller_effects_and_margins() -> None:
    effects = [minimum_detectable_effect([0.0, 1.0] * (n // 2), "binary") for n in (20, 100, 500, 5000)]
    margins = [smallest_decidable_margin([0.0, 1.0] * (n // 2), "binary") for n in (20, 100, 500, 5000)]
    assert effects == sorted(effects, reverse=True)
    assert margins == sorted(margins, reverse=True)


def test_a_margin_below_what_unchanged_rows_leave_open_is_undecidable() -> None:
    margin = smallest_decidable_margin([1.0] * 40, "binary")
    unchanged = paired(0, 0, 40, right=40)
    assert decide_guard(unchanged, margin * 1.001) == "kept"
    assert decide_guard(unchanged, margin * 0.999) == "undecidable"


def test_three_seeds_say_all_three_rose_and_that_they_cannot_reach_five_percent() -> None:
    seeds = over_seeds("exact_match", {0: 0.1, 1: 0.2, 2: 0.15})
    assert seeds.rose == 3
    assert seeds.note.startswith("all 3 seeds rose; without assuming a bell curve 3 seeds cannot reach p < 0.05")
    assert "0.25" in seeds.note
    assert seeds.low is not None
    assert seeds.high is not None
    assert seeds.mean == pytest.approx(0.15)
    assert seeds.low < seeds.mean < seeds.high


def test_six_seeds_carry_no_such_caveat_and_one_seed_has_no_interval() -> None:
    six = over_seeds("m", {i: 0.1 + 0.01 * i for i in range(6)})
    assert six.note == "all 6 seeds rose"
    one = over_seeds("m", {7: 0.1})
    assert one.low is None
    assert "not known" in one.note
    assert one.to_json()["differences"] == {"7": 0.1}


def test_drawing_seeds_and_rows_anew_is_wider_than_either_alone() -> None:
    rng = np.random.default_rng(3)
    rows, of_seed = rng.normal(0.2, 0.4, 80), rng.normal(0, 0.1, 6)
    sums = of_seed[:, None] + rows[None, :]  # (6 seeds, 80 rows)
    sizes = np.ones(80)
    both = two_way_interval(sums, sizes, 0.05, seed=1)
    only_rows = two_way_interval(np.repeat(rows[None, :], 6, axis=0), sizes, 0.05, seed=1)
    only_seeds = two_way_interval(np.repeat(of_seed[:, None] + rows.mean(), 80, axis=1), sizes, 0.05, seed=1)
    assert both[0] < sums.mean() < both[1]
    assert both[1] - both[0] > max(only_rows[1] - only_rows[0], only_seeds[1] - only_seeds[0])
    assert only_rows == pytest.approx(np.quantile(rng.choice(rows, (9_999, 80)).mean(axis=1), (0.025, 0.975)), abs=0.01)
    assert both == two_way_interval(sums, sizes, 0.05, seed=1)
