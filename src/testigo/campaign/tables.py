"""Tables for notebooks: plain rows that `pandas.DataFrame` takes as they are, and that show themselves in Jupyter."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, overload

_FIRST, _LAST = 10, 5
"""Of a long table these rows are shown; it has all of them."""


class Table(Sequence[Mapping[str, Any]]):
    """Rows of plain values under names.

    Examples
    --------
    >>> table = Table(("update", "loss"), [(1, 6.0), (2, 5.5)])
    >>> table[1]["loss"], table.column("update")
    (5.5, [1, 2])
    >>> pandas.DataFrame(table)  # doctest: +SKIP
    """

    def __init__(self, columns: Iterable[str], rows: Iterable[Sequence[Any]], title: str = "") -> None:
        self.columns = tuple(columns)
        self.rows = tuple(tuple(row) for row in rows)
        self.title = title

    @classmethod
    def of(cls, records: Iterable[Mapping[str, Any]], columns: Sequence[str], title: str = "") -> Table:
        """Some keys of records; None where a record lacks one."""
        return cls(columns, [[record.get(name) for name in columns] for record in records], title)

    def column(self, name: str) -> list[Any]:
        """The values of a column."""
        at = self.columns.index(name)
        return [row[at] for row in self.rows]

    def to_pandas(self) -> Any:
        """As a data frame; pandas comes with the libraries that Testigo needs."""
        import pandas  # type: ignore[import-untyped, unused-ignore]

        return pandas.DataFrame(list(self.rows), columns=list(self.columns))

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, at: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, at: slice) -> Table: ...
    def __getitem__(self, at: int | slice) -> dict[str, Any] | Table:
        if isinstance(at, slice):
            return Table(self.columns, self.rows[at], self.title)
        return dict(zip(self.columns, self.rows[at], strict=True))

    def __repr__(self) -> str:
        cells = [self.columns, *(tuple(map(shown, row)) for row in self._few())]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]
        more = [f"({len(self)} rows)"] if len(self) > _FIRST + _LAST else []
        return "\n".join([*([self.title] if self.title else []), *lines, *more])

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(shown(value))}</td>" for value in row) + "</tr>" for row in self._few()
        )
        title = f"<caption>{html.escape(self.title)}</caption>" if self.title else ""
        more = f"<p>{len(self)} rows × {len(self.columns)} columns</p>" if len(self) > _FIRST + _LAST else ""
        return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"

    def _few(self) -> tuple[tuple[Any, ...], ...]:
        return self.rows if len(self) <= _FIRST + _LAST else (*self.rows[:_FIRST], *self.rows[-_LAST:])


def shown(value: Any) -> str:
    """A value as a reader wants it: numbers short, what is not known as nothing."""
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
