"""Rows become tensors: packs without padding whose rows share their common prefixes, or a padded batch.

A pack is one sequence. What rows begin with alike is laid once, as a tree (`tree.py`); every row sees the stretches
that lead to it and itself. The gradient is that of the same rows alone, the shared tokens are computed once. Known from
preference and reinforcement training (DPO prefix sharing, arXiv 2410.20305; Prefix Grouper, arXiv 2506.05433).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np
import torch

from testigo.encoding.row import EncodedRow
from testigo.encoding.tree import stretches

IGNORED = -100


@dataclass(frozen=True)
class Pack:
    """A microbatch as tensors. B is 1 in the packed layout, T is the length; S is the number of supervised places.

    Attributes
    ----------
    input_ids, position_ids
        (B, T) long.
    segment
        (B, T) long: 0 what all rows share, k the k-th row, above the number of rows what some share, -1 padding.
    places
        (S,) long: flat places in B × T whose next token is supervised.
    targets
        (S,) long: that next token.
    owner
        (S,) long: which row of `row_ids` a supervised place belongs to.
    until
        (T,) long: the place after the last one that sees a place, which itself is the first; None in a padded batch.
    before
        (P,) long: ids that every row begins with and that stand in a cache before the pack; their places come first
        in what a row sees. None where there are none.
    longest
        Tokens of the longest row, with what stands before it.
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
    until: torch.Tensor | None = None
    before: torch.Tensor | None = None
    longest: int = 0

    @property
    def attention_mask(self) -> torch.Tensor:
        """(1, 1, T, P + T) bool for packed rows, (B, T) long for padded ones, as transformers takes them.

        Made on the device that the pack is on, each time it is asked for: packs that wait keep no T × T places.
        """
        return (self.segment != -1).long() if self.until is None else _seen(self.until, self.n_before)

    @property
    def n_before(self) -> int:
        """What stands in a cache before the pack [tokens]."""
        return 0 if self.before is None else len(self.before)

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


def pack(rows: Sequence[EncodedRow], *, share_prefix: bool = True, before: int = 0) -> Pack:
    """Lay rows into one sequence, what they share once.

    Parameters
    ----------
    before
        How many leading tokens of every row are left out, since a cache has them.
    """
    ids: list[int] = []
    positions: list[int] = []
    segment: list[int] = []
    until: list[int] = []
    starts = [0] * len(rows)  # where a row's own place 0 would lie
    laid = stretches(rows, before=before, share=share_prefix)
    for one in laid:
        if one.number == one.row + 1:
            starts[one.row] = len(ids) - one.begin
        ids += rows[one.row].ids[one.begin : one.end]
        positions += range(one.begin, one.end)
        segment += [one.number] * one.n_tokens
        until += [one.until] * one.n_tokens
    places = [place for row, start in zip(rows, starts, strict=True) for place in _places(row, start)]
    return Pack(
        input_ids=torch.tensor([ids]),
        position_ids=torch.tensor([positions]),
        segment=torch.tensor([segment]),
        places=torch.tensor(places, dtype=torch.long),
        targets=torch.tensor([token for row in rows for token in row.supervised_ids], dtype=torch.long),
        owner=torch.tensor([k for k, row in enumerate(rows) for _ in range(row.n_supervised)], dtype=torch.long),
        row_ids=tuple(row.id for row in rows),
        n_prefix=laid[0].n_tokens if laid[0].number == 0 else 0,
        until=torch.tensor(until),
        before=torch.tensor(rows[0].ids[:before]) if before else None,
        longest=max(row.n_tokens for row in rows),
    )


def pad(rows: Sequence[EncodedRow], *, pad_id: int) -> Pack:
    """Lay rows one below the other, padded on the right. Padding is known by its place, never by its id."""
    length = max(row.n_tokens for row in rows)
    ids = np.full((len(rows), length), pad_id, dtype=np.int64)
    segment = np.full((len(rows), length), -1, dtype=np.int64)
    places: list[int] = []
    targets: list[int] = []
    owner: list[int] = []
    for number, row in enumerate(rows):
        ids[number, : row.n_tokens] = row.ids
        segment[number, : row.n_tokens] = number + 1
        places += _places(row, number * length)
        targets += row.supervised_ids
        owner += [number] * row.n_supervised
    return Pack(
        input_ids=torch.tensor(ids),
        position_ids=torch.arange(length).expand(len(rows), length),
        segment=torch.tensor(segment),
        places=torch.tensor(places, dtype=torch.long),
        targets=torch.tensor(targets, dtype=torch.long),
        owner=torch.tensor(owner, dtype=torch.long),
        row_ids=tuple(row.id for row in rows),
        n_prefix=0,
        is_padded=True,
        longest=length,
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


def _seen(until: torch.Tensor, n_before: int) -> torch.Tensor:
    """(T,) ends to a (1, 1, T, P + T) mask: place k is seen from k on, and no longer from `until[k]` on."""
    at = torch.arange(len(until), device=until.device)
    seen = (at[:, None] >= at[None, :]) & (at[:, None] < until[None, :])  # (T, T)
    return torch.cat([seen.new_ones((len(until), n_before)), seen], dim=1)[None, None]
