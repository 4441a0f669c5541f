"""Numbers of things in words."""

from __future__ import annotations


def counted(n: int, one: str, many: str = "") -> str:
    """`1 row`, `2 rows`; `many` where it is not `one` with an s: `row is`, `rows are`."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"
