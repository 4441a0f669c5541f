"""The forest plot of a terminal, and the page."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from testigo.cli.compare_page import page_of
from testigo.cli.forest import Branch, branches_of, forest
from testigo.judgement import compare


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    def lines(right: int) -> list[dict[str, Any]]:
        return [
            {"row": str(k), "output": str(k < right), "category": f"<b>{k % 2}</b>", "scores": {"right": k < right}}
            for k in range(80)
        ]

    hypothesis: Any = SimpleNamespace(improve=SimpleNamespace(metric="right", by=0.1), keep=(), alpha=0.05)
    found = compare(
        lines(20), lines(60), metrics={"right": "binary"}, hypothesis=hypothesis, variants={"slow": lines(30)}
    )
    return found.to_json()


def test_each_category_and_variant_has_a_line_that_fits(document: dict[str, Any]) -> None:
    lines = forest(branches_of(document), 0.1)
    assert len(lines) == 1 + 2 + 1 + 1
    assert max(map(len, lines)) <= 79
    assert all("●" in line for line in lines[:-1])
    assert lines[0].endswith("shown")


def test_an_interval_around_zero_crosses_its_line_and_one_above_does_not() -> None:
    wide, above = forest([Branch("a", 10, 0.1, -0.2, 0.4), Branch("b", 10, 0.5, 0.4, 0.6)])[:2]
    assert "┼" in wide
    assert "│" in above
    assert above.index("│") < above.index("├") < above.index("●") < above.index("┤")


def test_no_difference_at_all_is_drawn_too() -> None:
    assert "●" in forest([Branch("a", 10, 0.0, 0.0, 0.0)])[0]


def test_the_page_is_offline_and_takes_no_markup_from_the_data(document: dict[str, Any]) -> None:
    page = page_of(document, "orders & more")
    assert "<b>" not in page
    assert "orders &amp; more" in page
    assert "http" not in page
    assert page.count("<circle") == 4
    assert 'role="img" aria-label="' in page
