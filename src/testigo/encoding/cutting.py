"""What a maximum length would cut off: the whole answer, a part of it, or the end of its turn alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from testigo.encoding.row import EncodedRow


@dataclass(frozen=True)
class Cut:
    """Where rows would end if they were cut at a length and nothing else were done. Ids of rows.

    Attributes
    ----------
    before
        They end before their answer begins: nothing of it would be learned.
    inside
        They lose a part of their answer.
    end
        They lose the end of their turn alone.
    """

    maximum_length: int
    before: tuple[str, ...]
    inside: tuple[str, ...]
    end: tuple[str, ...]

    @property
    def rows(self) -> tuple[str, ...]:
        """All that do not fit: `refuse` names them, `drop` leaves them out, `truncate` shortens their input."""
        return (*self.before, *self.inside, *self.end)


def cut(rows: Sequence[EncodedRow], maximum_length: int) -> Cut:
    """What a maximum length would cut off these rows [tokens]."""
    places: dict[str, list[str]] = {"before": [], "inside": [], "end": []}
    for row in rows:
        if row.n_tokens > maximum_length:
            places[_place(row, maximum_length)].append(row.id)
    return Cut(
        maximum_length,
        before=tuple(places["before"]),
        inside=tuple(places["inside"]),
        end=tuple(places["end"]),
    )


def _place(row: EncodedRow, maximum_length: int) -> str:
    if maximum_length <= row.n_before_answer:
        return "before"
    return "end" if maximum_length == row.n_tokens - 1 else "inside"
