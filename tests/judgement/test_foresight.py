"""What the baseline foretells: the chance of a verdict, and the rows that it would take."""

from __future__ import annotations

import numpy as np
import pytest

from testigo.judgement import compare_paired, decide_improvement
from testigo.judgement.foresight import corpus_world, foresee, row_world, rows_for, rows_for_margin


@pytest.mark.parametrize("a_group", [1, 4])
def test_the_foretold_chance_is_the_one_that_campaigns_have(a_group: int) -> None:
    rng, rows = np.random.default_rng(1), 120
    groups = [k // a_group for k in range(rows)]

    def answers(mean: float) -> np.ndarray:
        common = rng.random(rows // a_group)[groups]
        joins = rng.random(rows) < (0.5 if a_group > 1 else 0)
        return (np.where(joins, common, rng.random(rows)) > 1 - mean).astype(float)

    found = [
        decide_improvement(compare_paired(answers(0.4), answers(0.6), kind="binary", groups=groups, seed=k), 0.1, 0.05)
        for k in range(250)
    ]
    foretold = np.mean([row_world(answers(0.4), "binary", groups, seed=k).chance(0.2, 0.1) for k in range(10)])
    assert foretold == pytest.approx(found.count("shown") / 250, abs=0.08)


def test_an_effect_of_exactly_the_registered_size_is_shown_half_of_the_time_at_most() -> None:
    world = row_world([0.0, 1.0] * 500, "binary")
    assert world.chance(0.1, 0.1) == pytest.approx(0.5, abs=0.08)
    above = world.rise_for(0.1)
    assert above is not None
    assert 0.1 < above < 0.16


def test_groups_that_agree_foretell_less() -> None:
    scores = [float(k // 5 % 2) for k in range(200)]
    alone, grouped = (row_world(scores, "binary", groups) for groups in (None, [k // 5 for k in range(200)]))
    assert grouped.chance(0.2, 0.05) < alone.chance(0.2, 0.05) - 0.2


def test_answers_that_mostly_stay_foretell_more() -> None:
    scores = [0.0, 1.0] * 100
    few = row_world(scores, "binary", discordance=0.1)
    assert few.chance(0.08, 0.02) > row_world(scores, "binary").chance(0.08, 0.02) + 0.2


@pytest.mark.parametrize(("scores", "groups"), [([1.0] * 50, None), ([0.0, 1.0] * 20, [0, 1, 2, 3] * 10)])
def test_nothing_left_to_gain_or_too_few_units_has_no_chance(scores: list[float], groups: list[int] | None) -> None:
    world = row_world(scores, "binary", groups)
    assert world.chance(0.3, 0.1) == 0
    assert world.rise_for(0.0) is None


def test_macro_f1_is_foreseen_too() -> None:
    targets = ["a", "b", "c", "a"] * 25
    outputs = ["a", "b", "a", "b"] * 25
    world = corpus_world(targets, outputs, campaigns=100)
    assert world.chance(0.05, 0.02) < world.chance(0.3, 0.02)


def test_a_baselines_lines_are_foreseen_whole() -> None:
    lines = [{"row": str(k), "target": "a", "output": "a", "scores": {"right": float(k % 2)}} for k in range(120)]
    seen = foresee(lines, "right", "binary", 0.1)
    assert seen.chance <= 0.65
    assert seen.room == pytest.approx(0.5)
    assert seen.shown_from is not None
    assert seen.detectable is not None
    assert seen.shown_from >= seen.detectable > 0.1


def test_rows_that_would_do() -> None:
    assert rows_for(100, 0.2, 0.1) == 400
    assert rows_for(100, 0.05, 0.1) == 100
    assert rows_for(100, None, 0.1) is None
    assert rows_for_margin(40, 0.06, 0.02, 0.05) == 360
    assert rows_for_margin(40, 0.02, 0.02, 0.05) == 133  # what unchanged rows need, though the spread were nothing
