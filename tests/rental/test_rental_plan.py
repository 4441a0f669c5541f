from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testigo.rental import Measured, RunWork, plan_rental

MEASURED = Measured(
    seconds_per_update=10,
    seconds_per_validation=60,
    seconds_per_evaluated_row=2,
    load_seconds=30,
    export_seconds=45,
    pilot_seconds=600,
)
RUNS = [RunWork(variant, seed, 5_000, validations=50) for variant in ("control", "slow", "fast") for seed in (0, 1)]


def test_every_piece_is_the_written_arithmetic_times_the_margin() -> None:
    plan = plan_rental(MEASURED, RUNS[:1], baseline_rows=100, test_rows=50, checkpoint_every=200, margin=2.0)
    seconds = {piece.name: piece.seconds / 2 for piece in plan.pieces}
    assert seconds == {
        "pilot": 600,
        "baseline": 30 + 200,
        "control, seed 0": 30 + 50_000 + 3_000,
        "evaluation: control, seed 0": 30 + 200,
        "resume reserve": 30 + 2_000,
        "sealed test": 2 * (30 + 100),
        "export and fresh reading": 75,
    }
    assert plan.seconds == pytest.approx(2 * sum(seconds.values()))
    assert plan.measured_seconds == pytest.approx(sum(seconds.values()))


def test_a_trained_model_answers_as_fast_as_the_pilot_measured_and_not_as_the_base() -> None:
    learned = replace(MEASURED, seconds_per_answered_row=0.5, samples_seconds=4)
    plan = plan_rental(learned, RUNS[:1], baseline_rows=100, test_rows=10, margin=1.0)
    seconds = {piece.name: piece.seconds for piece in plan.pieces}
    assert seconds["baseline"] == 30 + 200
    assert seconds["control, seed 0"] == 30 + 4 + 50_000 + 3_000
    assert seconds["evaluation: control, seed 0"] == 30 + 50
    assert seconds["sealed test"] == 60 + 20 + 5


def test_the_last_variants_last_seed_falls_out_first() -> None:
    plan = plan_rental(MEASURED, RUNS, baseline_rows=100, days=(1, 3, 7, 30))
    one, three, seven, thirty = plan.packages
    assert one.kept == ("control, seed 0",)
    assert one.left_out == ("fast, seed 1", "fast, seed 0", "slow, seed 1", "slow, seed 0", "control, seed 1")
    assert three.left_out == ("fast, seed 1", "fast, seed 0", "slow, seed 1")
    assert seven.fits
    assert thirty.fits
    assert thirty.left_out == ()


def test_a_package_too_short_for_the_control_says_so_and_keeps_it_in_the_plan() -> None:
    (package,) = plan_rental(MEASURED, RUNS, baseline_rows=100, days=(0.5,)).packages
    assert not package.fits
    assert not package.fits_control
    assert package.kept == ("control, seed 0",)
    plan = plan_rental(MEASURED, RUNS, baseline_rows=100, days=(0.5,))
    assert plan.package_rows()[0][-1] == "not even the control with one seed fits"


def test_cost_follows_price_and_the_package_is_paid_whole() -> None:
    (package,) = plan_rental(
        MEASURED, RUNS[:1], baseline_rows=0, days=(3,), price_per_hour=2.10, currency="EUR"
    ).packages
    assert package.cost == pytest.approx(3 * 24 * 2.10)
    assert package.cost_used == pytest.approx(package.used_seconds / 3600 * 2.10)
    (free,) = plan_rental(MEASURED, RUNS[:1], baseline_rows=0, days=(3,)).packages
    assert free.cost is None


def test_the_plan_is_a_table_and_plain_json() -> None:
    plan = plan_rental(MEASURED, RUNS, baseline_rows=100, days=(3, 7), price_per_hour=2.1, currency="EUR")
    assert json.loads(json.dumps(plan.to_json(), allow_nan=False))["packages"][0]["days"] == 3
    assert plan.package_rows()[0][0] == "3 days"
    assert plan.package_rows()[0][2] == "151.20 EUR"
    assert plan.package_rows()[0][3] == f"{plan.packages[0].cost_used:,.2f} EUR"
    assert plan.package_rows()[1][-1] == "everything fits"
    assert plan.piece_rows()[-1][0] == "everything"
    assert len(plan.piece_rows()) == len(plan.pieces) + 1


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf])
def test_a_time_that_is_none_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="seconds_per_update"):
        replace(MEASURED, seconds_per_update=value)


@pytest.mark.parametrize("wrong", [{"days": (0,)}, {"days": (math.nan,)}, {"margin": 0.9}, {"runs": []}])
def test_impossible_plans_are_refused(wrong: dict[str, object]) -> None:
    given_ = {"runs": RUNS, "baseline_rows": 1, **wrong}
    with pytest.raises(ValueError, match=r"run|days|margin"):
        plan_rental(MEASURED, **given_)  # type: ignore[arg-type]


times = st.floats(0, 1e5)


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=8), times, times, st.floats(0.1, 60))
def test_what_is_kept_fits_or_is_the_control_alone_and_more_days_never_hold_less(
    updates: list[int], per_update: float, load: float, days: float
) -> None:
    measured = Measured(per_update, 1, 1, load, 1, 1)
    runs = [RunWork("v", i, n) for i, n in enumerate(updates)]
    short, long = plan_rental(measured, runs, baseline_rows=10, days=(days, 2 * days)).packages
    assert short.kept + short.left_out[::-1] == tuple(run.name for run in runs)
    assert short.used_seconds <= short.seconds or (short.kept == (runs[0].name,) and not short.fits_control)
    assert len(long.kept) >= len(short.kept)
