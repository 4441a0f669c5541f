"""One new token for each of many rows: the keys that all rows share are read once, each row's own where they lie.

The usual cache repeats a common prompt for each row, is copied whole for each new token, and is copied again for each
group of heads: at 16 rows of 200 tokens SmolLM2 moves 1.4 GB a token that way, twice its weights. Here a token moves
what is there once (80 MB). Known as cascade or shared-prefix decoding (Hydragen, arXiv 2402.05099).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from transformers import AttentionInterface, DynamicCache
from transformers.cache_utils import DynamicLayer

from testigo.model.bare import bare

NAME = "testigo_shared_prefix"


class Slots(DynamicCache):
    """The keys and values of rows in slots, beside those of a prefix that all of them see.

    Each row's own places lie from 0 on, without gaps; `n_filled` says how many there are. A slot is filled anew when
    its row is done.
    """

    def __init__(self, prefix: DynamicCache | None, n_slots: int, n_places: int, like: DynamicCache) -> None:
        super().__init__()
        self.prefix = None if prefix is None else [(layer.keys[0], layer.values[0]) for layer in prefix.layers]
        # Under autocast keys and values may be of different kinds.
        self.keys, self.values = (
            [own.new_zeros((n_slots, own.shape[1], n_places, own.shape[3])) for own in made]
            for made in ([layer.keys for layer in like.layers], [layer.values for layer in like.layers])
        )
        self.n_filled = torch.zeros(n_slots, dtype=torch.long, device=self.keys[0].device)
        self.n_rows = 0
        self._longest = 0

    def put(self, slot: int, cache: DynamicCache, row: int, begin: int, n: int) -> None:
        """Take a row's own places, which begin at `begin`, from a usual cache."""
        for keys, values, layer in zip(self.keys, self.values, cache.layers, strict=True):
            keys[slot, :, :n] = layer.keys[row, :, begin : begin + n]
            values[slot, :, :n] = layer.values[row, :, begin : begin + n]
        self.n_filled[slot] = n

    def move(self, source: int, target: int) -> None:
        """One slot's row to another slot."""
        n = int(self.n_filled[source])
        for tensor in (*self.keys, *self.values):
            tensor[target, :, :n] = tensor[source, :, :n]
        self.n_filled[target] = n

    @contextmanager
    def next_token(self, model: Any, n_rows: int) -> Iterator[torch.Tensor]:
        """While one token of each of the first rows goes through the model.

        Yields the mask of their own places: (rows, 1, 1, places).
        """
        filled = self.n_filled[:n_rows]
        self.n_rows, self._longest = n_rows, int(filled.max()) + 1
        places = torch.arange(self._longest, device=filled.device)
        with _computed_by(model, self):
            yield (places[None, :] <= filled[:, None])[:, None, None, :]
        self.n_filled[:n_rows] += 1

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write each row's new place behind its others; all its own places."""
        keys, values, n = self.keys[layer_idx], self.values[layer_idx], self.n_rows
        rows = torch.arange(n, device=keys.device)
        keys[rows, :, self.n_filled[:n]] = key_states[:, :, 0].to(keys.dtype)
        values[rows, :, self.n_filled[:n]] = value_states[:, :, 0].to(values.dtype)
        return keys[:n, :, : self._longest], values[:n, :, : self._longest]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Of the longest row, with the prefix."""
        return self._longest - 1 + (0 if self.prefix is None else self.prefix[0][0].shape[1])


def is_plain(cache: DynamicCache) -> bool:
    """Whether all layers hold keys and values of every place, as slots do."""
    return all(type(layer) is DynamicLayer for layer in cache.layers)


_CURRENT: list[Slots] = []
"""Whose prefix a pass sees: attention functions are known by name and are given no more than a layer has."""


@contextmanager
def _computed_by(model: Any, slots: Slots) -> Iterator[None]:
    configuration = bare(model).config
    before = configuration._attn_implementation
    _CURRENT.append(slots)
    configuration._attn_implementation = NAME
    try:
        yield
    finally:
        configuration._attn_implementation = before
        _CURRENT.pop()


def attend(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Attention of one query a row, (B, heads, 1, D), to the shared places and to the row's own, in one softmax."""
    assert attention_mask is not None
    n_rows, n_heads, _one, size = query.shape
    kinds = key.shape[1]
    group = n_heads // kinds
    scale = size**-0.5 if scaling is None else scaling
    asked = query.reshape(n_rows, kinds, group, size) * scale
    scores = (asked @ key.transpose(-1, -2)).float().masked_fill(~attention_mask, torch.finfo(torch.float32).min)
    prefix = _CURRENT[-1].prefix
    if prefix is None:
        made = scores.softmax(-1).to(query.dtype) @ value
    else:
        shared_keys, shared_values = prefix[module.layer_idx]  # (kinds, P, D)
        n_shared = shared_keys.shape[1]
        flat = asked.transpose(0, 1).reshape(kinds, n_rows * group, size)
        there = (flat @ shared_keys.transpose(-1, -2)).view(kinds, n_rows, group, n_shared).transpose(0, 1)
        weights = torch.cat([there.float(), scores], dim=-1).softmax(-1).to(query.dtype)
        seen = weights[..., :n_shared].transpose(0, 1).reshape(kinds, n_rows * group, n_shared)
        made = (seen @ shared_values).view(kinds, n_rows, group, -1).transpose(0, 1) + weights[..., n_shared:] @ value
    return made.reshape(n_rows, n_heads, 1, -1).transpose(1, 2).contiguous(), None


AttentionInterface.register(NAME, attend)


def last_logits(model: Any, slots: Slots, tokens: Sequence[int], positions: torch.Tensor, cache_name: str) -> Any:
    """(rows, vocabulary) after one more token of each row."""
    device = positions.device
    with slots.next_token(model, len(tokens)) as mask:
        given = {cache_name: slots, "use_cache": True}
        return model(
            input_ids=torch.tensor([[token] for token in tokens], device=device),
            attention_mask=mask,
            position_ids=positions[:, None],
            **given,
        ).logits[:, -1]
