"""Ten thousand simulated campaigns without effect produce no more false improvements than alpha."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from testigo.judgement import compare_paired, decide_improvement

ALPHA = 0.05
Draw = tuple[NDArray[np.float64], NDArray[np.float64], list[int] | None, str]


def single_rows(rng: np.random.Generator) -> Draw:
    before = rng.random(60) < 0.6
    after = np.where(rng.random(60) < 0.3, rng.random(60) < 0.6, before)
    return before.astype(float), after.astype(float), None, "binary"


def ragged_groups(rng: np.random.Generator) -> Draw:
    group = np.repeat(np.arange(15), rng.geometric(0.25, 15))
    before, after = (rng.random(len(group)) < rng.beta(2, 2, 15)[group] for _ in range(2))
    return before.astype(float), after.astype(float), [int(g) for g in group], "binary"


def scores_between(rng: np.random.Generator) -> Draw:
    before = rng.beta(0.5, 0.5, 40)
    return before, np.where(rng.random(40) < 0.4, rng.beta(0.5, 0.5, 40), before), None, "bounded"


@pytest.mark.slow
@pytest.mark.parametrize(("draw", "campaigns"), [(single_rows, 4_000), (ragged_groups, 4_000), (scores_between, 2_000)])
def test_without_effect_no_more_than_alpha_are_shown_and_the_intervals_cover(
    draw: Callable[[np.random.Generator], Draw], campaigns: int
) -> None:
    rng = np.random.default_rng(2026)
    shown = covered = 0
    for number in range(campaigns):
        before, after, groups, kind = draw(rng)
        paired = compare_paired(list(before), list(after), kind=kind, groups=groups, alpha=ALPHA, seed=number)
        # any rise counts here; a registered `by` above zero can only make it rarer
        shown += decide_improvement(paired, by=0.0, alpha=ALPHA) == "shown"
        covered += paired.low <= 0 <= paired.high
    assert shown / campaigns <= ALPHA
    assert 0.925 <= covered / campaigns <= 0.985
