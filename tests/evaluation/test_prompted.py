"""Examples in the base's prompt."""

from __future__ import annotations

from testigo.corpus import Row
from testigo.evaluation.prompted import choose_examples

ROWS = [Row(f"r{k:02}", f"g{k}", "ab"[k % 5 == 0], {"x": k}, str(k)) for k in range(20)]


def test_one_example_of_each_category_comes_before_a_second_of_any() -> None:
    chosen = choose_examples(ROWS, 2, seed=3)
    assert {row.category for row in chosen} == {"a", "b"}
    assert len(choose_examples(ROWS, 7, seed=3)) == 7


def test_examples_are_drawn_by_the_seed_whatever_the_order() -> None:
    assert choose_examples(ROWS[::-1], 4, seed=1) == choose_examples(ROWS, 4, seed=1)
    assert choose_examples(ROWS, 4, seed=1) != choose_examples(ROWS, 4, seed=2)


def test_no_more_examples_than_rows() -> None:
    assert len(choose_examples(ROWS[:3], 8, seed=0)) == 3
