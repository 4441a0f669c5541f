"""Guards beside the task: a loss that must not rise, and another task that must not fall."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from scipy.stats import ttest_rel

from testigo.judgement.forgetting import compare_losses, forgetting_of, loss_guard

BEFORE = {"prose": 2.1, "code": 1.4, "json": 0.9, "facts": 2.6, "dialogue": 2.2, "numbers": 1.1}


def moved(*by: float) -> dict[str, float]:
    return {name: loss + rise for (name, loss), rise in zip(BEFORE.items(), by, strict=True)}


def registered(*keep: tuple[str, float]) -> Any:
    guards = tuple(SimpleNamespace(metric=metric, within=within) for metric, within in keep)
    return SimpleNamespace(improve=SimpleNamespace(metric="right", by=0.1), keep=guards, alpha=0.05)


def test_losses_of_the_same_passages_are_compared_as_scipy_does() -> None:
    now = moved(0.02, 0.01, 0.03, 0.00, 0.02, 0.01)
    found = compare_losses(BEFORE, now)
    assert found is not None
    expected = ttest_rel(list(now.values()), list(BEFORE.values())).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert (found.fixed, found.broken, found.both_wrong) == (0, 5, 1)


@pytest.mark.parametrize(
    ("rises", "verdict"),
    [
        ((0.01, 0.00, 0.02, 0.01, 0.00, 0.01), "kept"),
        ((-0.3, -0.2, -0.4, -0.3, -0.2, -0.3), "kept"),  # a loss that falls is no harm
        ((0.30, 0.20, 0.40, 0.30, 0.20, 0.30), "broken"),
        ((0.30, 0.00, -0.2, 0.30, 0.00, -0.1), "undecidable"),
        ((0.00, 0.00, 0.00, 0.00, 0.00, 0.00), "kept"),
    ],
)
def test_a_loss_is_guarded_against_its_rise(rises: tuple[float, ...], verdict: str) -> None:
    paired = compare_losses(BEFORE, moved(*rises))
    assert paired is not None
    kept = loss_guard(paired, "general_loss", 0.05)
    assert kept.guard.verdict == verdict
    assert kept.better == "lower"
    assert kept.guard.difference == pytest.approx(sum(rises) / 6)  # in the loss's own direction


def test_a_rise_beyond_the_margin_stands_in_the_sentence() -> None:
    losses = {"baseline": BEFORE, "control": moved(*[0.3, 0.2, 0.4] * 2)}
    found = forgetting_of(losses, {}, registered(("general_loss", 0.05)), ("control",))
    assert found is not None
    assert found.conclusion.startswith("The loss of general text rose by more than the 0.05 nats per token allowed")


def test_a_guard_task_is_compared_on_its_own_rows_for_control_and_variant() -> None:
    def lines(right: int) -> list[dict[str, Any]]:
        return [{"row": f"q{k}", "scores": {"exact_match": float(k < right)}} for k in range(200)]

    guard = SimpleNamespace(metric="exact_match", within=0.05)
    tasks = {"questions": (guard, "binary", lines(120), {"control": lines(120), "slow": lines(60)})}
    found = forgetting_of({}, tasks, registered(), ("control", "slow"))
    assert found is not None
    assert (found.guards[0].task, found.guards[0].guard.verdict) == ("questions", "kept")
    assert found.variants["slow"][0].guard.verdict == "broken"
    assert found.to_json()["variants"]["slow"][0]["better"] == "higher"


def test_nothing_measured_is_nothing_said() -> None:
    assert forgetting_of({"baseline": BEFORE, "control": {}}, {}, registered(), ("control",)) is None
    assert compare_losses({"a": 1.0}, {"a": 1.0}) is None
