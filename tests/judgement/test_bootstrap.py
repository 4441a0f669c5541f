"""The bootstrap's draws and ends, held against scipy's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import bootstrap

from testigo.judgement.bootstrap import bca_ends, drawn_means
from testigo.judgement.seeds import two_way_interval
from testigo.judgement.units import bootstrap_interval


@pytest.mark.parametrize("is_ragged", [False, True])
@pytest.mark.parametrize("confidence", [0.90, 0.95])
def test_bca_ends_are_those_of_scipy(is_ragged: bool, confidence: float) -> None:
    rng = np.random.default_rng(5)
    sums = rng.exponential(1, 250) - 0.7
    sizes = rng.integers(1, 5, 250).astype(float) if is_ragged else np.ones(250)

    def mean(units: np.ndarray, axis: int = -1) -> np.ndarray:
        drawn = units.astype(int)
        return np.asarray(sums[drawn].sum(axis=axis) / sizes[drawn].sum(axis=axis))

    theirs = bootstrap(
        (np.arange(250),), mean, vectorized=True, n_resamples=9_999, confidence_level=confidence, rng=rng
    )
    estimate = float(sums.sum() / sizes.sum())
    left_out = (sums.sum() - sums) / (sizes.sum() - sizes)
    same_draws = bca_ends(theirs.bootstrap_distribution, estimate, left_out, confidence)
    assert same_draws == pytest.approx(tuple(theirs.confidence_interval), abs=1e-9)
    (own,) = bootstrap_interval(sums, sizes, (confidence,), seed=1)
    assert own == pytest.approx(tuple(theirs.confidence_interval), abs=0.02)


@pytest.mark.parametrize("values", [[-1.0, 0.0, 1.0], list(np.linspace(-1, 1, 997))])
def test_drawn_means_have_the_mean_and_spread_of_draws_with_replacement(values: list[float]) -> None:
    rows = np.resize(np.asarray(values), 1_000)
    drawn = drawn_means(rows, np.ones(1_000), seed=0)
    assert drawn.mean() == pytest.approx(rows.mean(), abs=0.001)
    assert drawn.std() == pytest.approx(rows.std() / np.sqrt(1_000), rel=0.03)
    assert np.array_equal(drawn, drawn_means(rows, np.ones(1_000), seed=0))
    assert not np.array_equal(drawn, drawn_means(rows, np.ones(1_000), seed=1))


def test_five_seeds_and_rows_are_covered_though_seeds_differ_most() -> None:
    rng, covered = np.random.default_rng(0), 0
    for campaign in range(150):
        effects = rng.normal(0, 0.1, 5)
        sums = rng.normal(0, 0.3, 40) + effects[:, None] + rng.normal(0, 0.1, (5, 40))
        low, high = two_way_interval(sums, np.ones(40), 0.05, campaign)
        covered += low <= 0 <= high
    assert covered >= 0.90 * 150
