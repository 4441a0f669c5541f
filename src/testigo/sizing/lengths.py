"""How long the rows are, and which of them meet in the largest and in an ordinary microbatch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nlargest
from itertools import cycle, islice
from typing import Literal

import torch

from testigo.encoding import AnyRow, EncodedRow, Labelled, LabelledRow
from testigo.encoding.classes import labelled, pad_labelled


@dataclass(frozen=True)
class RowLength:
    """Tokens of one row: its last prompt, its whole, and what counts in turns before its last."""

    n_prompt: int
    n_tokens: int
    n_earlier: int = 0

    @property
    def n_supervised(self) -> int:
        """What counts in the loss [tokens]."""
        return self.n_tokens - self.n_prompt + self.n_earlier


@dataclass(frozen=True)
class RowLengths:
    """The rows of both splits by length alone.

    Attributes
    ----------
    n_shared
        Tokens with which all of them begin. Packs carry these once.
    n_classes
        Of a class head; 0 where a text is written.
    pixels
        Channels, height and width of the images before a head; None where rows are texts.
    """

    train: tuple[RowLength, ...]
    validation: tuple[RowLength, ...]
    n_shared: int = 0
    n_classes: int = 0
    pixels: tuple[int, ...] | None = None

    @classmethod
    def of_classes(
        cls,
        train: Sequence[LabelledRow],
        validation: Sequence[LabelledRow],
        *,
        n_classes: int,
        pixels: tuple[int, ...] | None = None,
    ) -> RowLengths:
        """From rows before a class head."""
        return cls(_lengths(train), _lengths(validation), 0, n_classes, pixels)

    @classmethod
    def of(cls, train: Sequence[EncodedRow], validation: Sequence[EncodedRow]) -> RowLengths:
        """From encoded rows."""
        rows = [row.ids for row in (*train, *validation)]
        first, last = min(rows), max(rows)  # what these two share, all rows between them share
        n_shared = next((n for n, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), len(first))
        return cls(_lengths(train), _lengths(validation), n_shared)


MOST_GROUPS, MOST_ROWS_LAID = 8, 64
"""So many microbatches of an update are laid, or of larger ones as many as have so many rows, but two at least: the
others lie as these do, and gradients are there from the first one on."""


@dataclass(frozen=True)
class Inputs:
    """The rows of one update, a group a microbatch, shortest first as the loop lays them; and a validation batch.

    Attributes
    ----------
    budget
        The longest training rows, which set the budget of a pack; none: those of the last microbatch.
    n_more
        Microbatches of the update beyond these, laid as these are.
    only_last
        Whether one process computes the last of them alone, and other processes the others.
    beside
        The row with the shortest prompt among validation rows of other batches; None where there is one batch.
    """

    microbatches: tuple[tuple[RowLength, ...], ...]
    validation: tuple[RowLength, ...]
    n_shared: int
    n_classes: int = 0
    pixels: tuple[int, ...] | None = None
    budget: tuple[RowLength, ...] = ()
    n_more: int = 0
    only_last: bool = False
    beside: RowLength | None = None

    @property
    def update(self) -> tuple[RowLength, ...]:
        """The rows of all microbatches."""
        return tuple(row for rows in self.microbatches for row in rows)

    @property
    def longest(self) -> RowLength:
        """The longest row that is generated from or exported with."""
        return max(self.validation, key=lambda row: row.n_prompt)

    def encoded(self, rows: Sequence[RowLength]) -> tuple[EncodedRow, ...]:
        """Rows of these lengths that begin alike and go on differently, so that packs are laid as for the real ones."""
        made = []
        for number, row in enumerate(rows):
            n_alike = min(self.n_shared, row.n_tokens)
            # ids say nothing here: 0 where rows are alike, then the row's own number
            ids = (0,) * n_alike + (number + 1,) * (row.n_tokens - n_alike)
            made.append(EncodedRow(str(number), "", ids, row.n_tokens - row.n_supervised))
        return tuple(made)

    def before_a_head(self, rows: Sequence[RowLength]) -> Labelled:
        """A batch of rows of these lengths, or of images, as a class head reads it."""
        made = [LabelledRow(str(number), "", 0, (0,) * row.n_tokens) for number, row in enumerate(rows)]
        if self.pixels is None:
            return pad_labelled(made, pad_id=0)
        return labelled(made, {"pixel_values": torch.zeros((len(made), *self.pixels))})


@dataclass(frozen=True)
class Meeting:
    """How many rows meet where.

    Attributes
    ----------
    is_packed
        Whether a microbatch is a budget of tokens: then it holds no more rows than there are.
    """

    microbatch: int
    accumulation: int
    batch_size: int
    processes: int = 1
    is_packed: bool = True

    def rows_of(self, lengths: RowLengths) -> int:
        """Rows of a microbatch."""
        return min(self.microbatch, len(lengths.train)) if self.is_packed else self.microbatch

    def groups_of(self, n_rows: int) -> int:
        """How many microbatches of a process are laid."""
        return min(self.accumulation, max(2, min(MOST_GROUPS, MOST_ROWS_LAID // n_rows)))


def worst(lengths: RowLengths, meeting: Meeting, *, by: Literal["length", "target"] = "length") -> Inputs:
    """The update of the longest rows, or the one with the most supervised tokens; and the longest validation rows."""
    train = sorted(lengths.train, key=_by_length if by == "length" else _by_target)
    validation = sorted(lengths.validation, key=_by_length)
    cut = max(len(validation) - meeting.batch_size, 0)
    return _inputs(lengths, meeting, train, validation[cut:], validation[:cut])


def can_lie_in_one(lengths: RowLengths, meeting: Meeting) -> bool:
    """Whether an update of short rows that begin alike may lie in one pack, under the budget that the longest ones set.

    Then their beginning lies in the pack itself, and not in a cache before several.
    """
    n_rows = meeting.microbatch * meeting.accumulation * meeting.processes
    if not (meeting.is_packed and lengths.n_shared and meeting.microbatch < n_rows <= len(lengths.train)):
        return False
    own = sorted(row.n_tokens - min(lengths.n_shared, row.n_tokens - row.n_supervised) for row in lengths.train)
    return sum(own[:n_rows]) <= sum(own[-meeting.microbatch :])


def typical(lengths: RowLengths, meeting: Meeting) -> Inputs:
    """An update of rows around the median length, laid under the same budget."""
    train, n_rows = sorted(lengths.train, key=_by_length), meeting.rows_of(lengths)
    middle = _middle(train, n_rows * meeting.groups_of(n_rows))
    validation = sorted(lengths.validation, key=_by_length)
    batch = _middle(validation, meeting.batch_size)
    return _inputs(lengths, meeting, middle, batch, validation if len(batch) < len(validation) else ())


def _inputs(
    lengths: RowLengths,
    meeting: Meeting,
    train: Sequence[RowLength],
    batch: Sequence[RowLength],
    others: Sequence[RowLength],
) -> Inputs:
    n_rows = meeting.rows_of(lengths)
    n_groups = meeting.groups_of(n_rows)
    only_last = n_groups == 1 and meeting.processes > 1
    return Inputs(
        _update(train, n_rows, 2 if only_last else n_groups),
        tuple(batch),
        lengths.n_shared,
        lengths.n_classes,
        lengths.pixels,
        tuple(nlargest(n_rows, lengths.train, key=_by_length)),
        meeting.accumulation - n_groups,
        only_last,
        min(others, key=lambda row: row.n_tokens - row.n_supervised, default=None),
    )


def _lengths(rows: Sequence[AnyRow]) -> tuple[RowLength, ...]:
    return tuple(RowLength(row.n_before_answer, row.n_tokens, row.n_supervised - row.n_answer) for row in rows)


def _by_length(row: RowLength) -> tuple[int, int]:
    return row.n_tokens, row.n_supervised


def _by_target(row: RowLength) -> tuple[int, int]:
    return row.n_supervised, row.n_tokens


def _middle(ordered: Sequence[RowLength], n: int) -> Sequence[RowLength]:
    start = max((len(ordered) - n) // 2, 0)
    return ordered[start : start + n]


def _update(ordered: Sequence[RowLength], n_rows: int, n_groups: int) -> tuple[tuple[RowLength, ...], ...]:
    """The last rows of an ordered list as microbatches; a small split comes round again, as epochs do."""
    chosen = list(islice(cycle(reversed(ordered)), n_rows * n_groups))[::-1]
    return tuple(tuple(chosen[start : start + n_rows]) for start in range(0, len(chosen), n_rows))
