"""What rows have in common, as a tree: its root is what all begin with, a node is what some of them go on with.

Nested prefixes come from a system prompt, then a schema, then a document with several questions. Every node is
computed once and seen by the rows under it. In the order of a walk that enters a node before what hangs
under it, all that sees a place lies in one stretch behind it: the ancestor test on Euler-tour numbers becomes one
number a place, as in the column-wise masks of FlashMask (arXiv 2410.01359).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from testigo.encoding.row import EncodedRow

#: A stretch that only some rows share is laid once from this many tokens on; shorter ones are mostly chance.
LEAST_SHARED = 8


@dataclass(frozen=True)
class Stretch:
    """Consecutive tokens of a pack that the same rows see.

    Attributes
    ----------
    row
        Whose ids they are; of a shared stretch, one of its rows.
    begin, end
        Which of that row's ids.
    number
        0 what all rows share, k the k-th row's own, above the number of rows what some share.
    until
        The place after the last one that sees it, counted in the pack.
    """

    row: int
    begin: int
    end: int
    number: int
    until: int

    @property
    def n_tokens(self) -> int:
        """Its length [tokens]."""
        return self.end - self.begin


def stretches(rows: Sequence[EncodedRow], *, before: int = 0, share: bool = True) -> list[Stretch]:
    """Rows as the stretches of a pack, in the order in which they are laid.

    Sharing ends at the latest one place before a row's first supervised token, since the place before it predicts that
    row's own token: so every row keeps a stretch of its own, and a supervised place belongs to one row.

    Parameters
    ----------
    before
        How many leading tokens of every row stand elsewhere, in a cache.
    """
    arrays = [row.array for row in rows]
    limits = [max(row.supervised_spans[0][0] - 1, before) for row in rows]
    inner = iter(range(len(rows) + 1, 2 * len(rows) + 1))
    laid: list[Stretch] = []

    def lay(members: list[int], start: int, at: int, *, is_root: bool) -> int:
        """Lay these rows from their token `start` on, at the pack's place `at`; the place after them."""
        if len(members) == 1 or not share:
            for row in members:
                n = len(arrays[row]) - start
                laid.append(Stretch(row, start, start + n, row + 1, at + n))
                at += n
            return at
        n = _common([arrays[k] for k in members], min(limits[k] for k in members), start)
        own = n - start if is_root or n - start >= LEAST_SHARED else 0
        place = len(laid)
        first = at
        if own:
            laid.append(Stretch(members[0], start, n, 0 if is_root else next(inner), 0))
            start, at = n, at + own
        for part in _parted(members, arrays, limits, n):
            at = lay(part, start, at, is_root=False)
        if own:
            whole = laid[place]
            laid[place] = Stretch(whole.row, whole.begin, whole.end, whole.number, at)
        assert at >= first
        return at

    lay(list(range(len(rows))), before, 0, is_root=True)
    return laid


def n_laid(rows: Sequence[EncodedRow], *, before: int = 0) -> int:
    """How many tokens rows take in one pack, without what stands before it."""
    return sum(one.n_tokens for one in stretches(rows, before=before))


def _parted(members: Sequence[int], arrays: Sequence[np.ndarray], limits: Sequence[int], n: int) -> Iterator[list[int]]:
    """Rows by their next token, as far as it may be shared; in the order in which they first come."""
    parts: dict[object, list[int]] = {}
    for row in members:
        parts.setdefault(int(arrays[row][n]) if limits[row] > n else ("alone", row), []).append(row)
    return iter(parts.values())


def _common(arrays: Sequence[np.ndarray], limit: int, start: int) -> int:
    """Up to which place all rows agree, looking from `start` on, at most up to `limit`."""
    first, n = arrays[0], max(limit, start)
    for other in arrays[1:]:
        differs = first[start:n] != other[start:n]
        if differs.any():
            n = start + int(differs.argmax())
    return n
