"""What a workspace has measured: the pilot's ordinary batch, and real runs where there are some."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from testigo.rental import NotMeasured, RunWork, Sizes, measured_in, plan_rental, sizes_in

CAMPAIGN: Any = SimpleNamespace(evaluation=SimpleNamespace(samples=8))
SIZES = Sizes(train=400, validation=100, test=100)
SPEED = {
    "start_seconds": 6.0,
    "seconds_per_loss_token": 0.001,
    "loss_tokens": 10_000,
    "seconds_per_prompt_token": 0.02,
    "prompt_tokens": 1_000,
    "seconds_per_step": 0.5,
    "steps": 160,
}


def write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    phases = [("load", 4.0), ("update-2", 3.0), ("validation", 70.0), ("export", 9.0)]
    write(tmp_path / "pilot/p/phases.json", {"phases": [{"phase": name, "seconds": s} for name, s in phases]})
    write(tmp_path / "baseline/b/predictions/validation.meta.json", {"seconds": 300.0})
    return tmp_path


def test_the_answers_of_a_trained_model_are_foretold_by_the_pilots_ordinary_batch(root: Path) -> None:
    write(root / "pilot/p/measured.json", {"speed": SPEED})
    measured, sources = measured_in(root, CAMPAIGN, SIZES)
    assert measured.seconds_per_evaluated_row == 3.0
    assert measured.seconds_per_answered_row == pytest.approx((0.02 * 1_000 + 0.5 * 160) / 100)
    assert measured.samples_seconds == pytest.approx(8.0)
    assert measured.seconds_per_validation == pytest.approx(10 + 8)
    assert measured.load_seconds == 10.0
    assert "as long as the targets" in sources["evaluation"]


def test_what_an_evaluation_measures_beside_its_rows_is_planned_for_each_run(root: Path) -> None:
    write(root / "baseline/b/predictions/validation.meta.json", {"seconds": 300.0, "beside_seconds": 12.0})
    measured, _ = measured_in(root, CAMPAIGN, SIZES)
    plan = plan_rental(measured, [RunWork("control", 0, 10)], baseline_rows=100, margin=1.0)
    told = {piece.name: piece for piece in plan.pieces}
    assert told["evaluation: control, seed 0"].seconds == pytest.approx(4 + 100 * 3.0 + 12)
    assert told["baseline"].arithmetic == "start, 100 rows × 3 s, 12 s beside"


def test_a_pilot_that_kept_no_speed_is_read_by_its_phases(root: Path) -> None:
    for document in (None, {"speed": {"start_seconds": "soon"}}, []):
        write(root / "pilot/p/measured.json", document)
        measured, sources = measured_in(root, CAMPAIGN, SIZES)
        assert (measured.seconds_per_validation, measured.seconds_per_answered_row) == (70.0, None)
        assert measured.load_seconds == 4.0
        assert sources["evaluation"] == "the baseline"


def test_real_runs_take_the_place_of_the_pilot_but_where_the_plan_is_held_against_them(root: Path) -> None:
    run = root / "runs" / "control-s0-1"
    write(run / "predictions/validation.meta.json", {"seconds": 50.0})
    lines = [{"update": 1, "seconds": 2.0}, {"update": 1, "validation_loss": 1.0, "seconds": 20.0}, {"update": 2}]
    (run / "steps.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    measured, sources = measured_in(root, CAMPAIGN, SIZES)
    assert (measured.seconds_per_update, measured.seconds_per_validation) == (2.0, 20.0)
    assert measured.seconds_per_answered_row == 0.5
    assert sources["evaluation"] == "the baseline, and 1 evaluation of runs"
    before, _ = measured_in(root, CAMPAIGN, SIZES, with_runs=False)
    assert (before.seconds_per_update, before.seconds_per_answered_row) == (3.0, None)


def test_what_is_missing_says_all_commands_that_measure_it(root: Path) -> None:
    with pytest.raises(NotMeasured) as caught:
        sizes_in(root)
    assert caught.value.needs == ("baseline", "pilot")
    (root / "pilot/p/phases.json").unlink()
    with pytest.raises(NotMeasured) as caught:
        measured_in(root, CAMPAIGN, SIZES)
    assert caught.value.needs == ("pilot",)
    for meta in root.glob("baseline/*/predictions/validation.meta.json"):
        meta.unlink()
    with pytest.raises(NotMeasured, match=r"the baseline's evaluation and the pilot's measurements") as caught:
        measured_in(root, CAMPAIGN, SIZES)
    assert caught.value.needs == ("baseline", "pilot")
