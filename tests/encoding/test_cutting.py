"""What each maximum length would cut."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny import made_row

from testigo.encoding import EncodedRow, cut


def row(name: str, n_prompt: int, n_answer: int, category: str = "") -> EncodedRow:
    return replace(made_row(name, tuple(range(n_prompt)), tuple(range(n_answer))), category=category)


ROWS = [row("a", 10, 5, "shop"), row("b", 20, 5, "shop"), row("c", 30, 6, "office"), row("d", 466, 7, "office")]


@pytest.mark.parametrize(
    ("maximum", "before", "inside", "end"),
    [
        (473, (), (), ()),
        (472, (), (), ("d",)),
        (467, (), ("d",), ()),
        (466, ("d",), (), ()),
        (35, ("d",), (), ("c",)),
        (25, ("c", "d"), (), ()),
        (24, ("c", "d"), (), ("b",)),
        (21, ("c", "d"), ("b",), ()),
    ],
)
def test_a_maximum_length_tells_where_each_row_would_be_cut(
    maximum: int, before: tuple[str, ...], inside: tuple[str, ...], end: tuple[str, ...]
) -> None:  # C08
    found = cut(ROWS, maximum)
    assert (found.before, found.inside, found.end) == (before, inside, end)


@given(
    lengths=st.lists(st.tuples(st.integers(1, 40), st.integers(1, 20)), min_size=1, max_size=12),
    maximum=st.integers(2, 64),
)
def test_each_row_that_does_not_fit_is_told_once(lengths: list[tuple[int, int]], maximum: int) -> None:
    rows = [row(f"r{k}", *pair) for k, pair in enumerate(lengths)]
    found = cut(rows, maximum)
    assert sorted(found.rows) == sorted(r.id for r in rows if r.n_tokens > maximum)
