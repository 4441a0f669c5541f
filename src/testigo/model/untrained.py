"""Rows of an embedding that no training ever reached."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import torch

_LEADING = 8


def untrained(embedding: torch.Tensor, ids: Iterable[int]) -> dict[int, str]:
    """Which of these ids have a row that was never trained, and how it shows: zero, or the same as another row.

    Rows that are made and not trained are zero, or copies of one value; training never leaves two rows equal in every
    number. Rows that were drawn at random look like trained ones and are not found.

    Parameters
    ----------
    embedding
        (vocabulary, width).
    """
    used = sorted(token for token in set(ids) if 0 <= token < len(embedding))
    if not used:
        return {}
    weights = embedding.detach()
    alike: dict[tuple[float, ...], list[int]] = defaultdict(list)
    for token, front in enumerate(weights[:, :_LEADING].float().tolist()):
        alike[tuple(front)].append(token)
    found: dict[int, str] = {}
    for token, front in zip(used, weights[used, :_LEADING].float().tolist(), strict=True):
        if not weights[token].any():
            found[token] = "all zeros"
            continue
        twin = next((t for t in alike[tuple(front)] if t != token and torch.equal(weights[t], weights[token])), None)
        if twin is not None:
            found[token] = f"the same as the row of id {twin}"
    return found
