from __future__ import annotations

import pytest

from testigo.judgement.openings import price_of


def test_the_first_opening_costs_nothing() -> None:
    price = price_of([0.03], "shown", 0.05)
    assert (price.openings, price.corrected_p_value, price.verdict, price.chance) == (1, 0.03, "shown", 0.05)


def test_a_second_opening_can_take_an_improvement_back() -> None:
    price = price_of([0.4, 0.03], "shown", 0.05)
    assert price.corrected_p_value == pytest.approx(0.06)
    assert price.verdict == "not decided"
    assert price.chance == pytest.approx(0.1)


def test_a_clear_improvement_survives_its_openings() -> None:
    price = price_of([0.2, 0.1, 0.001], "shown", 0.05)
    assert price.corrected_p_value == pytest.approx(0.003)
    assert price.verdict == "shown"


def test_the_correction_gives_nothing() -> None:
    assert price_of([0.001, 0.3], "refuted", 0.05).verdict == "refuted"
    assert price_of([0.001, 0.3], "not decided", 0.05).verdict == "not decided"
