"""The base against itself, and with examples in its prompt."""

from __future__ import annotations

from typing import Any

import pytest

from testigo.judgement.noise import noise_floor_of, prompted_of

METRICS = {"right": "binary"}


def line(row: int, output: str, right: float, prompt: str = "p") -> dict[str, Any]:
    return {"row": str(row), "output": output, "scores": {"right": right}, "prompt_sha256": prompt}


def test_rows_that_differ_the_second_time_are_named_and_bounded() -> None:
    first = [line(k, "a", 1.0) for k in range(40)]
    again = [line(k, "b" if k in (3, 7) else "a", 0.0 if k == 3 else 1.0) for k in range(20)]
    floor = noise_floor_of(first, again, METRICS)
    assert floor is not None
    assert (floor.n, floor.different, floor.rows) == (20, 2, ("3", "7"))
    assert floor.low == pytest.approx(0.0123, abs=1e-3)  # Clopper and Pearson's interval of 2 in 20
    assert floor.high == pytest.approx(0.3170, abs=1e-3)
    assert floor.metrics["right"] == {"changed": 1, "difference": pytest.approx(-0.05)}


def test_probabilities_that_round_otherwise_in_other_batches_are_no_other_output() -> None:
    first = [line(k, "spam", 0.731) | {"probabilities": [0.731, 0.269]} for k in range(32)]
    again = [line(k, "spam", 0.731 + 1e-8) | {"probabilities": [0.731 + 1e-8, 0.269 - 1e-8]} for k in range(31)]
    again.append(line(31, "ham", 0.499) | {"probabilities": [0.499, 0.501]})
    floor = noise_floor_of(first, again, {"right": "bounded"})
    assert floor is not None
    assert (floor.different, floor.rows, floor.metrics["right"]["changed"]) == (1, ("31",), 1)


def test_no_row_answered_twice_has_no_floor() -> None:
    assert noise_floor_of([line(1, "a", 1.0)], [], METRICS) is None


def test_examples_stand_between_the_base_and_the_control() -> None:
    base, control = [line(k, "x", 0.0) for k in range(60)], [line(k, "z", 1.0) for k in range(60)]
    prompted = [line(k, "y", float(k < 30), prompt="with examples") for k in range(60)]
    found = prompted_of(base, prompted, control, metrics=METRICS, examples=4, alpha=0.05)
    assert found.values == {"right": 0.5}
    assert found.metrics["right"].difference == pytest.approx(0.5)
    assert found.control["right"].difference == pytest.approx(0.5)
    assert found.to_json()["examples"] == 4
