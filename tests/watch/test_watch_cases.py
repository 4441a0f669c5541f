"""Each diagnosis fires on its fault, and is silent on a healthy curve and on the healthy twin of its fault."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from testigo.rules import CannotCheck, Finding, Passed, Rule, judge
from testigo.watch import Curve, Watcher, all_rules

NAN = float("nan")
RULES: dict[str, Rule] = {rule.code: rule for rule in all_rules() if rule.evidence is Curve}
Steps = list[dict[str, Any]]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def steps_of(losses: Any, **columns: Any) -> Steps:
    """Updates with these losses, and all else as on a healthy run; a column may be one value or one an update."""
    usual: dict[str, Any] = {
        "learning_rate": 1e-4,
        "gradient_norm": 1.0,
        "skipped": False,
        "tokens": 1000,
        "supervised_tokens": 100,
        "seconds": 1.0,
        "resident_bytes": 2 * 10**9,
        "allocated_bytes": None,
    }
    steps = []
    for at, loss in enumerate(losses):
        values = {
            name: value[at] if isinstance(value, list | np.ndarray) else value
            for name, value in (usual | columns).items()
        }
        rows = {"rows": [f"a{at}", f"b{at}"], "row_losses": {f"a{at}": float(loss) * 1.9, f"b{at}": float(loss) * 0.1}}
        steps.append({"update": at + 1, "loss": float(loss), "epoch": (at + 1) / 1000, **rows, **values})
    return steps


def with_validation(steps: Steps, losses: list[float], every: int) -> Steps:
    mixed: Steps = []
    waiting = list(losses)
    for step in steps:
        mixed.append(step)
        if step["update"] % every == 0 and waiting:
            mixed.append({"update": step["update"], "validation_loss": waiting.pop(0), "validation_tokens": 500})
    assert not waiting
    return mixed


def falling(n: int = 200, noise: float = 0.05, seed: int = 0) -> np.ndarray:
    return (1 + 2 * np.exp(-np.arange(n) / 40)) * (1 + noise * rng(seed).normal(size=n))


def changed(values: np.ndarray, at: int, to: float) -> np.ndarray:
    values = values.copy()
    values[at] = to
    return values


def at_updates(steps: Steps, updates: range | list[int], **values: Any) -> Steps:
    return [step | values if step["update"] in updates else step for step in steps]


HEALTHY: tuple[Steps, dict[str, Any]] = (
    with_validation(steps_of(falling()), [2.2, 1.8, 1.5, 1.35, 1.3, 1.28, 1.27, 1.265, 1.262, 1.26], 20),
    {"planned_learning_rates": [1e-4] * 200, "vocabulary_size": 49152, "base_loss": 2.9},
)
RISING = [3, 2.2, 1.8, 1.6, 1.55, 1.6, 1.7, 1.85, 2.0]
OVERFLOW = {"skipped": True, "gradient_norm": NAN}
BYTES = 2e9 + 5e6 * np.arange(200)
FILLING = 2e9 + 8e8 * (1 - np.exp(-np.arange(200) / 20))
SWINGS = 2 + 0.8 * (-1.0) ** np.arange(60)
OWN_SPIKE = changed(falling(), 99, 4.5)

# code: (sick steps and what is known about the run, healthy twin of the fault)
CASES: dict[str, tuple[tuple[Steps, dict[str, Any]], tuple[Steps, dict[str, Any]]]] = {
    "T101": (
        (steps_of([2.0, 1.9, NAN, NAN]), {}),
        (at_updates(steps_of([0.16, 0.18, 0.2]), [2], **OVERFLOW), {}),
    ),
    "T102": ((at_updates(steps_of([0.16, 0.18, 0.2]), [2], **OVERFLOW), {}), (steps_of([0.16, 0.18, 0.2]), {})),
    "T103": (
        (at_updates(steps_of([0.16] * 30), range(25, 31), **OVERFLOW), {}),
        (at_updates(steps_of([0.16] * 30), range(1, 12), **OVERFLOW), {}),
    ),
    "T104": ((steps_of(OWN_SPIKE), {}), (steps_of(falling(noise=0.3)), {})),
    "T105": ((steps_of([4.5] * 12), {"base_loss": 2.0}), (steps_of([2.0, 3.1, 1.4, 2.6, 2.2] * 3), {"base_loss": 2.0})),
    "T106": (
        (steps_of([11.5] * 10), {"vocabulary_size": 49152}),
        (steps_of(math.log(40) + 0.1 + 0.05 * rng().normal(size=12)), {"vocabulary_size": 40}),
    ),
    "T107": (
        (steps_of([0.0, 0.0], gradient_norm=0.0), {}),
        (steps_of([1e-7, 0.0], gradient_norm=[0.0, 1e-9]), {}),
    ),
    "T108": (
        (steps_of(falling(), gradient_norm=np.r_[np.ones(190), 30 * np.ones(10)]), {}),
        (steps_of(falling(), gradient_norm=np.exp(rng().normal(size=200))), {}),
    ),
    "T124": (
        (steps_of(falling(), gradient_norm=changed(np.exp(0.5 * rng().normal(size=200)), 150, 90.0)), {}),
        (steps_of(falling(), gradient_norm=changed(np.exp(0.5 * rng().normal(size=200)), 7, 90.0)), {}),
    ),
    "T109": (
        (steps_of(np.r_[falling(60), np.linspace(1.5, 8, 60)]), {}),
        (steps_of(np.r_[falling(60), 1.4 * np.ones(60)]), {}),
    ),
    "T110": (
        (steps_of([2.0] * 20, gradient_norm=1e-9), {}),
        (steps_of(np.r_[[2.0, 1.0], [1e-7] * 20], gradient_norm=1e-8), {}),
    ),
    "T111": ((steps_of(2.3 * (1 + 0.02 * rng().normal(size=200))), {}), (steps_of(3 - 0.0015 * np.arange(200)), {})),
    "T112": (
        (with_validation(steps_of(falling()), RISING, 20), {}),
        (with_validation(steps_of(falling()), [5, 4, 4.1, 3.9, 4.0, 3.8], 30), {}),
    ),
    "T113": (
        (at_updates(steps_of(falling()), [61], learning_rate=2e-4), {"planned_learning_rates": [1e-4] * 200}),
        (
            steps_of([2.0] * 5, learning_rate=[0, 5e-5, 1e-4, 1e-4, 0]),
            {"planned_learning_rates": [0, 5e-5, 1e-4, 1e-4, 0]},
        ),
    ),
    "T114": (
        (steps_of(np.r_[[3.0, 2.0, 0.5, 0.1], [0.001] * 20]), {}),
        (steps_of(np.r_[[3.0, 2.0, 0.5, 0.1], [0.001] * 20]), {"rows_again": True}),
    ),
    "T115": ((steps_of(SWINGS), {}), (steps_of(2 + 0.8 * rng().normal(size=60)), {})),
    "T116": (
        (steps_of(np.r_[falling(), np.linspace(1, 2.4, 80)]), {}),
        (steps_of(np.r_[falling(), 1 + 0.02 * np.sin(np.arange(80) / 9)]), {}),
    ),
    "T117": (
        (with_validation(steps_of(falling()), [2.0, NAN], 20), {}),
        (with_validation(steps_of(falling()), [2.0, 1e-9], 20), {}),
    ),
    "T120": (
        (steps_of(2 * np.exp(1.5 * rng(3).normal(size=200)), gradient_norm=np.exp(1.2 * rng(4).normal(size=200))), {}),
        (steps_of(falling(noise=0.5), gradient_norm=np.exp(1.2 * rng(4).normal(size=200))), {}),
    ),
    "T121": (
        (steps_of(falling(), learning_rate=np.r_[np.full(120, 1e-4), np.zeros(80)]), {}),
        (steps_of(falling(), learning_rate=np.r_[0, np.linspace(1e-6, 1e-4, 19), np.linspace(1e-4, 0, 180)]), {}),
    ),
    "T122": (
        (steps_of(falling() + 0.4 * np.sin(np.arange(200) * 2 * np.pi / 14)), {}),
        (
            [
                step | {"epoch": step["update"] / 14}
                for step in steps_of(falling() + 0.4 * np.sin(np.arange(200) * 2 * np.pi / 14))
            ],
            {},
        ),
    ),
    "M111": (
        (at_updates(steps_of(falling()), [77], seconds=900.0), {}),
        (at_updates(steps_of(falling()), range(20, 201, 20), seconds=900.0), {}),
    ),
    "M102": (
        (at_updates(steps_of(falling()), range(150, 201), seconds=3.0), {}),
        (at_updates(steps_of(falling()), [1, 2, *range(20, 201, 20)], seconds=30.0), {}),
    ),
    "M103": (
        (steps_of(falling(), resident_bytes=BYTES), {}),
        (steps_of(falling(), resident_bytes=FILLING, allocated_bytes=1e9 + 1e8 * rng().random(200)), {}),
    ),
}


def curve_of(case: tuple[Steps, dict[str, Any]]) -> Curve:
    steps, about = case
    if about.get("rows_again"):
        return Curve.from_steps([step | {"epoch": step["update"] / 2} for step in steps])
    return Curve.from_steps(steps, **about)


def outcome(code: str, case: tuple[Steps, dict[str, Any]]) -> Finding | Passed | CannotCheck:
    try:
        return RULES[code](curve_of(case))
    except CannotCheck as reason:
        return reason


def test_every_rule_of_the_curve_has_its_cases() -> None:
    assert set(CASES) == set(RULES)


@pytest.mark.parametrize("code", CASES)
def test_the_diagnosis_fires_on_its_fault(code: str) -> None:
    finding = outcome(code, CASES[code][0])

    assert isinstance(finding, Finding)
    assert finding.code == code
    assert any(character.isdigit() for character in finding.observed)


@pytest.mark.parametrize("code", CASES)
def test_the_diagnosis_is_silent_on_the_healthy_twin(code: str) -> None:
    assert not isinstance(outcome(code, CASES[code][1]), Finding)


@pytest.mark.parametrize("code", CASES)
def test_the_diagnosis_passes_a_healthy_curve_and_says_what_it_saw(code: str) -> None:
    seen = outcome(code, HEALTHY)

    assert isinstance(seen, Passed)
    assert seen.observed


@pytest.mark.parametrize("code", CASES)
def test_the_live_watch_finds_what_the_whole_curve_shows(code: str) -> None:
    steps, about = CASES[code][0]
    watcher = Watcher(**about)

    assert code in {finding.code for step in steps for finding in watcher.feed(step)}


@pytest.mark.parametrize("code", CASES)
def test_an_empty_curve_is_not_a_fault(code: str) -> None:
    assert not isinstance(outcome(code, ([], {"vocabulary_size": 40, "planned_learning_rates": [1.0]})), Finding)


def test_an_overflow_that_the_scaler_skipped_is_no_divergence() -> None:
    steps = [
        {"update": 1, "loss": 0.16, "gradient_norm": 1.0, "skipped": False},
        {"update": 2, "loss": 0.18, "gradient_norm": NAN, "skipped": True},
        {"update": 3, "loss": 0.2, "gradient_norm": 1.0, "skipped": False},
    ]

    verdict = judge(RULES.values(), [Curve.from_steps(steps)])

    assert [(finding.code, finding.severity) for finding in verdict.findings] == [("T102", "note")]


def test_a_loss_that_is_not_finite_twice_in_a_row_is_one_even_when_skipped() -> None:
    steps = at_updates(steps_of([0.2, NAN, NAN, 0.2]), [2, 3], **OVERFLOW)

    assert isinstance(outcome("T101", (steps, {})), Finding)


def test_a_spike_names_the_row_with_the_largest_loss_first() -> None:
    finding = outcome("T104", (steps_of(OWN_SPIKE), {}))

    assert isinstance(finding, Finding)
    assert finding.rows[0] == "a99"
    assert "update 100" in finding.observed


def epochs_of(hardness: np.ndarray, seed: int, *, n_updates: int = 160, batch: int = 4) -> Steps:
    """Rows that come again each epoch, each with its own factor of a loss that falls."""
    draw, steps = rng(seed), []
    while len(steps) < n_updates:
        for rows in np.array_split(draw.permutation(len(hardness)), len(hardness) // batch):
            level = 0.3 + 2 * np.exp(-len(steps) / 40)
            losses = {f"r{row}": float(hardness[row] * level * np.exp(0.1 * draw.normal())) for row in rows}
            step = {"update": len(steps) + 1, "loss": float(np.mean(list(losses.values()))), "row_losses": losses}
            steps.append(step)
    return steps


def test_a_bad_row_that_comes_back_each_epoch_is_a_spike() -> None:
    steps = epochs_of(np.ones(40), 1)
    for step in steps:
        if "r7" in step["row_losses"]:
            step["row_losses"]["r7"] = 6.0
            step["loss"] = float(np.mean(list(step["row_losses"].values())))

    finding = outcome("T104", (steps, {}))

    assert isinstance(finding, Finding)
    assert finding.rows == ("r7",)
    assert "its other 3 rows" in finding.observed


@pytest.mark.parametrize("batch", [1, 4, 16])
def test_rows_of_very_unequal_difficulty_are_no_spike(batch: int) -> None:
    for seed in range(12):
        hardness = np.exp(0.8 * rng(seed).normal(size=64))
        assert not isinstance(outcome("T104", (epochs_of(hardness, seed, batch=batch), {})), Finding), seed


def test_a_batch_with_few_supervised_tokens_may_scatter_more() -> None:
    losses = 2 + 0.02 * rng().normal(size=60)
    losses[50] = 2.6
    small = at_updates(steps_of(losses), [51], supervised_tokens=1)

    assert isinstance(outcome("T104", (steps_of(losses), {})), Finding)
    assert not isinstance(outcome("T104", (small, {})), Finding)


def test_two_batches_that_take_turns_do_not_oscillate() -> None:
    steps = [step | {"rows": [f"row {step['update'] % 2}"]} for step in steps_of(SWINGS)]

    assert not isinstance(outcome("T115", (steps, {})), Finding)


def test_a_schedule_held_back_by_skipped_updates_is_allowed() -> None:
    planned = [1e-4 * (1 - at / 10) for at in range(10)]
    steps = at_updates(steps_of([2.0] * 10, learning_rate=[planned[0], *planned[:9]]), [1], **OVERFLOW)
    wrong = at_updates(steps_of([2.0] * 10, learning_rate=[planned[0], *planned[:9]]), [])

    assert not isinstance(outcome("T113", (steps, {"planned_learning_rates": planned})), Finding)
    assert isinstance(outcome("T113", (wrong, {"planned_learning_rates": planned})), Finding)


def test_validation_that_rises_while_training_rises_too_is_not_called_overfitting() -> None:
    losses = np.r_[np.linspace(3, 1.5, 100), np.linspace(1.5, 2.5, 100)]

    assert not isinstance(outcome("T112", (with_validation(steps_of(losses), RISING, 20), {})), Finding)


def test_a_loss_written_as_null_or_as_a_word_is_not_finite() -> None:
    for written in (None, "nan", "inf"):
        curve = Curve.from_steps([{"update": 1, "loss": 2.0}, {"update": 2, "loss": written}])
        assert isinstance(RULES["T101"](curve), Finding)


def test_a_gradient_norm_that_was_not_measured_is_no_fault() -> None:
    curve = Curve.from_steps([{"update": 1, "loss": 2.0}, {"update": 2, "loss": 2.0, "gradient_norm": None}])

    assert isinstance(RULES["T101"](curve), Passed)
