"""How long the rows are, and which of them meet in the largest and in an ordinary microbatch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Inputs:
    """The rows of one update, a group a microbatch, shortest first as the loop lays them; and a validation batch."""

    microbatches: tuple[tuple[RowLength, ...], ...]
    validation: tuple[RowLength, ...]
    n_shared: int
    n_classes: int = 0
    pixels: tuple[int, ...] | None = None

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


def worst(
    lengths: RowLengths,
    *,
    microbatch: int,
    accumulation: int,
    batch_size: int,
    by: Literal["length", "target"] = "length",
) -> Inputs:
    """The update of the longest rows, or the one with the most supervised tokens; and the longest validation rows."""
    train = sorted(lengths.train, key=_by_length if by == "length" else _by_target)
    validation = sorted(lengths.validation, key=_by_length)[-batch_size:]
    return Inputs(
        _update(train, microbatch, accumulation), tuple(validation), lengths.n_shared, lengths.n_classes, lengths.pixels
    )


def typical(lengths: RowLengths, *, microbatch: int, accumulation: int, batch_size: int) -> Inputs:
    """An update of rows around the median length."""
    train, n_rows = sorted(lengths.train, key=_by_length), microbatch * accumulation
    validation = sorted(lengths.validation, key=_by_length)
    return Inputs(
        _update(_middle(train, n_rows), microbatch, accumulation),
        tuple(_middle(validation, batch_size)),
        lengths.n_shared,
        lengths.n_classes,
        lengths.pixels,
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


def _update(ordered: Sequence[RowLength], microbatch: int, accumulation: int) -> tuple[tuple[RowLength, ...], ...]:
    """The last rows of an ordered list as microbatches; a small split comes round again, as epochs do."""
    n_rows = microbatch * accumulation
    chosen = list(islice(cycle(reversed(ordered)), n_rows))[::-1]
    return tuple(tuple(chosen[start : start + microbatch]) for start in range(0, n_rows, microbatch))
