"""The rows of an update as packs: which rows meet, and what they begin with alike, computed once.

Nothing crosses an update: which rows make it is the order's affair alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from testigo.campaign import Campaign
from testigo.encoding import AnyRow, EncodedRow, bins, common_prefix, lengths_of, microbatches, n_laid
from testigo.model.attention import window_of
from testigo.model.cache import empty_cache

#: A prefix is worth a pass of its own when it saves so many tokens of an update.
LEAST_SAVED = 64


@dataclass(frozen=True)
class Groups:
    """The rows of each microbatch, and how many leading tokens of every row stand in a cache before all of them."""

    rows: list[list[Any]]
    before: int = 0


@dataclass(frozen=True)
class Layout:
    """How the rows of a run are laid out.

    Attributes
    ----------
    microbatch
        Rows at once, where rows are padded or stand before a class head.
    most_tokens
        The budget of a pack: what the `microbatch` longest training rows take when they lie in one [tokens]. None
        where rows are not packed.
    can_cache
        Whether packs may read what they share from a cache.
    """

    microbatch: int
    most_tokens: int | None
    can_cache: bool
    least_saved: int = LEAST_SAVED

    def of_update(self, rows: Sequence[AnyRow], *, processes: int = 1) -> Groups:
        """The rows of one update in microbatches, from the shortest to the longest."""
        if self.most_tokens is None:
            chosen = microbatches(range(len(rows)), [row.n_tokens for row in rows], self.microbatch)
            return Groups([[rows[k] for k in own] for own in chosen])
        packs = _in_packs(rows, self.most_tokens, processes)  # type: ignore[arg-type]
        before = _common(rows) if self.can_cache and len(packs.rows) > 1 else 0  # type: ignore[arg-type]
        if not before:
            return packs
        cached = _in_packs(rows, self.most_tokens, processes, before)  # type: ignore[arg-type]
        saved = size_of(packs) - size_of(cached)
        return cached if saved >= self.least_saved else packs

    def of_validation(self, rows: Sequence[AnyRow], size: int) -> Groups:
        """The rows of a split, `size` at once, alike lengths together."""
        ordered = sorted(rows, key=lambda row: (row.n_tokens, row.id))
        groups = [ordered[start : start + size] for start in range(0, len(ordered), size)]
        packed = self.most_tokens is not None and self.can_cache and len(groups) > 1
        return Groups(groups, _common(ordered) if packed else 0)  # type: ignore[arg-type]


def layout_of(
    settings: Campaign, model: Any, rows: Sequence[AnyRow], validation: Sequence[AnyRow] = (), *, sharded: bool = False
) -> Layout:
    """How a run lays its rows out."""
    size = settings.training.microbatch
    if settings.encoding.layout != "packed" or not rows or not isinstance(rows[0], EncodedRow):
        return Layout(size, None, False)
    longest = [rows[k] for k in np.argsort(-lengths_of(rows), kind="stable")[:size].tolist()]  # type: ignore[arg-type]
    most = max((row.n_tokens for row in (*longest, *validation)), default=0)
    plain = not settings.training.activation_checkpointing and not sharded
    return Layout(size, n_laid(longest), plain and can_cache(model, longest=most))


def _in_packs(rows: Sequence[EncodedRow], most: int, processes: int, before: int = 0) -> Groups:
    chosen = bins(rows, most_tokens=most, before=before, multiple_of=processes)
    return Groups([[rows[k] for k in own] for own in chosen], before)


def _common(rows: Sequence[EncodedRow]) -> int:
    """How many leading tokens all rows share, up to one place before the shortest prompt ends."""
    limit = min(row.supervised_spans[0][0] for row in rows) - 1
    return max(min(common_prefix([row.ids for row in rows]), limit), 0)


def size_of(groups: Groups) -> int:
    """How many tokens packs take together, what stands before them once."""
    return groups.before + sum(n_laid(own, before=groups.before) for own in groups.rows)


def can_cache(model: Any, *, longest: int) -> bool:
    """Whether packs of this model may read what stands before them from a cache.

    A window that is shorter than the rows drops what they would read, and a recurrent state belongs to no one place.
    """
    window = window_of(model)
    layers = empty_cache(model).layers
    return (window is None or longest < window) and bool(layers) and all(type(x) in _PLAIN for x in layers)


_PLAIN = (DynamicLayer, DynamicSlidingWindowLayer)
"""Caches that hold the keys and values of each place, and nothing that a pass changes in place."""
