"""Numbers of things in words."""

from __future__ import annotations

from testigo.counting import counted


def test_one_thing_is_not_many() -> None:
    assert [counted(n, "row") for n in (0, 1, 1234)] == ["0 rows", "1 row", "1,234 rows"]
    assert [counted(n, "row is", "rows are") for n in (1, 2)] == ["1 row is", "2 rows are"]
