"""Which variant goes on, and what a diverged seed counts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from testigo.judgement import compare
from testigo.judgement.choice import choose

METRICS = {"right": "binary"}
HYPOTHESIS: Any = SimpleNamespace(
    improve=SimpleNamespace(metric="right", by=0.1),
    keep=(SimpleNamespace(metric="right", within=0.02),),
    alpha=0.05,
)


def lines(right: int, n: int = 200) -> list[dict[str, Any]]:
    return [{"row": str(k), "output": str(k < right), "scores": {"right": float(k < right)}} for k in range(n)]


def chosen(variants: dict[str, int], forgets: dict[str, bool] | None = None) -> str:
    made = {name: lines(right) for name, right in variants.items()}
    return choose(
        compare(lines(40), lines(100), metrics=METRICS, hypothesis=HYPOTHESIS, variants=made), forgets
    ).variant


def test_a_variant_that_holm_does_not_tell_from_the_control_stays_behind() -> None:
    assert chosen({"slow": 103, "fast": 101}) == "control"
    assert chosen({}) == "control"


def test_of_several_better_variants_the_one_furthest_ahead_goes_on() -> None:
    assert chosen({"slow": 130, "fast": 150}) == "fast"


def test_a_variant_that_forgets_is_not_chosen() -> None:
    assert chosen({"slow": 130, "fast": 150}, {"fast": True}) == "slow"
    assert chosen({"fast": 150}, {"fast": True}) == "control"


@pytest.mark.parametrize("lost_as", ["failure", "bounds"])
def test_a_diverged_seed_counts_and_takes_a_shown_improvement_back(lost_as: str) -> None:
    seeds = {0: lines(120), 1: lines(118)}
    shown = compare(lines(40), lines(120), metrics=METRICS, hypothesis=HYPOTHESIS, seeds=seeds)
    assert shown.improvement.verdict == "shown"
    found = compare(
        lines(40), lines(120), metrics=METRICS, hypothesis=HYPOTHESIS, seeds=seeds, lost=[2], lost_as=lost_as
    )
    assert found.improvement.verdict == "not decided"
    assert found.seeds is not None
    assert found.seeds.differences[2] == pytest.approx(-0.2)  # every row wrong
    assert (found.seeds.best_mean is None) == (lost_as == "failure")
    assert "seed 2 diverged" in found.seeds.note
    assert "1 diverged" in found.conclusion
