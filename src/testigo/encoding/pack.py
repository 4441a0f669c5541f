"""Rows become tensors: packs without padding whose rows share their common prefix, or a padded batch.

A pack is one sequence. Segment 0 is what all its rows begin with; every other segment is one row's own rest and sees
segment 0 and itself. The gradient is that of the same rows alone, the shared tokens are computed once. Known from
preference and reinforcement training (DPO prefix sharing, arXiv 2410.20305; Prefix Grouper, arXiv 2506.05433).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import torch

from testigo.encoding.row import EncodedRow

IGNORED = -100


@dataclass(frozen=True)
class Pack:
    """A microbatch as tensors. B is 1 in the packed layout, T is the length; S is the number of supervised places.

    Attributes
    ----------
    input_ids, position_ids
        (B, T) long.
    segment
        (B, T) long: 0 the shared prefix, k the k-th row, -1 padding.
    places
        (S,) long: flat places in B × T whose next token is supervised.
    targets
        (S,) long: that next token.
    owner
        (S,) long: which row of `row_ids` a supervised place belongs to.
    """

    input_ids: torch.Tensor
    position_ids: torch.Tensor
    segment: torch.Tensor
    places: torch.Tensor
    targets: torch.Tensor
    owner: torch.Tensor
    row_ids: tuple[str, ...]
    n_prefix: int
    is_padded: bool = False

    @property
    def attention_mask(self) -> torch.Tensor:
        """(1, 1, T, T) bool for packed rows, (B, T) long for padded ones, as transformers takes them.

        Made on the device that the pack is on, each time it is asked for: packs that wait keep no T × T places.
        """
        return (self.segment != -1).long() if self.is_padded else _block_causal(self.segment[0])

    @property
    def n_tokens(self) -> int:
        """Places computed, padding included [tokens]."""
        return self.input_ids.numel()

    @property
    def n_supervised(self) -> int:
        """What counts in the loss [tokens]."""
        return self.targets.numel()

    def to(self, device: torch.device | str) -> Pack:
        """The same pack on a device."""
        own = ((field.name, getattr(self, field.name)) for field in fields(self))
        moved: dict[str, Any] = {name: value.to(device) for name, value in own if isinstance(value, torch.Tensor)}
        return replace(self, **moved)


def pack(rows: Sequence[EncodedRow], *, share_prefix: bool = True) -> Pack:
    """Lay rows into one sequence.

    The shared prefix ends at the latest one place before the shortest prompt does, since the last place of a prompt
    predicts its row's own first token.
    """
    n_prefix = 0
    if share_prefix and len(rows) > 1:
        limit = max(min(row.supervised_spans[0][0] for row in rows) - 1, 0)
        n_prefix = min(common_prefix([row.ids for row in rows]), limit)
    ids = list(rows[0].ids[:n_prefix])
    positions, segment = list(range(n_prefix)), [0] * n_prefix
    places: list[int] = []
    targets: list[int] = []
    owner: list[int] = []
    for number, row in enumerate(rows):
        start = len(ids) - n_prefix  # where this row's own place 0 would lie
        ids += row.ids[n_prefix:]
        positions += range(n_prefix, row.n_tokens)
        segment += [number + 1] * (row.n_tokens - n_prefix)
        places += _places(row, start)
        targets += row.supervised_ids
        owner += [number] * row.n_supervised
    segments = torch.tensor(segment)
    return Pack(
        input_ids=torch.tensor([ids]),
        position_ids=torch.tensor([positions]),
        segment=segments[None],
        places=torch.tensor(places, dtype=torch.long),
        targets=torch.tensor(targets, dtype=torch.long),
        owner=torch.tensor(owner, dtype=torch.long),
        row_ids=tuple(row.id for row in rows),
        n_prefix=n_prefix,
    )


def pad(rows: Sequence[EncodedRow], *, pad_id: int) -> Pack:
    """Lay rows one below the other, padded on the right. Padding is known by its place, never by its id."""
    length = max(row.n_tokens for row in rows)
    ids = torch.full((len(rows), length), pad_id)
    segment = torch.full((len(rows), length), -1)
    places: list[int] = []
    targets: list[int] = []
    owner: list[int] = []
    for number, row in enumerate(rows):
        ids[number, : row.n_tokens] = torch.tensor(row.ids)
        segment[number, : row.n_tokens] = number + 1
        places += _places(row, number * length)
        targets += row.supervised_ids
        owner += [number] * row.n_supervised
    return Pack(
        input_ids=ids,
        position_ids=torch.arange(length).expand(len(rows), length),
        segment=segment,
        places=torch.tensor(places, dtype=torch.long),
        targets=torch.tensor(targets, dtype=torch.long),
        owner=torch.tensor(owner, dtype=torch.long),
        row_ids=tuple(row.id for row in rows),
        n_prefix=0,
        is_padded=True,
    )


def lay_out(rows: Sequence[EncodedRow], layout: Literal["packed", "padded"], *, pad_id: int) -> Pack:
    """A microbatch in the campaign's layout."""
    return pack(rows) if layout == "packed" else pad(rows, pad_id=pad_id)


def _places(row: EncodedRow, start: int) -> Iterator[int]:
    """The places that predict what counts in the loss, where the row's own place 0 lies (or would lie) at `start`."""
    return (start + place - 1 for begin, end in row.supervised_spans for place in range(begin, end))


def common_prefix(sequences: Sequence[tuple[int, ...]]) -> int:
    """How many leading tokens all sequences share."""
    first, last = min(sequences), max(sequences)  # all others lie between these two
    return next(
        (place for place, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last))
    )


def _block_causal(segment: torch.Tensor) -> torch.Tensor:
    """(T,) segments to a (1, 1, T, T) mask: earlier places of the same segment and of the shared prefix."""
    at = torch.arange(len(segment), device=segment.device)
    same = (segment[:, None] == segment[None, :]) | (segment[None, :] == 0)  # (T, T)
    return ((at[:, None] >= at[None, :]) & same)[None, None]
