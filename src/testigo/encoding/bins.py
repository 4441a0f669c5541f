"""The rows of one update laid into as few packs as a budget of tokens allows.

Best-fit decreasing (Johnson 1974): the longest rows first, each into the pack that it fills best; rows with a prefix in
common count it once, so that they meet. Which rows meet changes no gradient, since an update has one normalisation.
"""

from __future__ import annotations

from collections.abc import Sequence

from testigo.encoding.row import EncodedRow
from testigo.encoding.tree import n_laid

#: Packs that are looked at for a row, the emptiest left out: more find next to nothing.
MOST_LOOKED_AT = 8


def bins(rows: Sequence[EncodedRow], *, most_tokens: int, before: int = 0, multiple_of: int = 1) -> list[list[int]]:
    """The numbers of the rows in each pack; short packs first, so that the longest comes last.

    Parameters
    ----------
    most_tokens
        Of a pack with what stands before it. A row that alone has more gets a pack of its own.
    before
        How many leading tokens of every row stand in a cache.
    multiple_of
        Data replicas: with packs that do not come out even, one process would wait for another; then rows are dealt
        out evenly to as many packs as do, where that fits.
    """
    order = sorted(range(len(rows)), key=lambda k: (-rows[k].n_tokens, k))
    packs: list[list[int]] = []
    sizes: list[int] = []
    for row in order:
        best: tuple[int, int, int] | None = None
        alone = rows[row].n_tokens - before
        room = sorted((k for k in range(len(packs))), key=lambda k: -sizes[k])
        for k in [k for k in room if sizes[k] + before < most_tokens][:MOST_LOOKED_AT]:
            size = n_laid([rows[other] for other in (*packs[k], row)], before=before)
            if size + before <= most_tokens:
                added = size - sizes[k]
                candidate = (added if added < alone else alone, -size, k)
                best = candidate if best is None else min(best, candidate)
        if best is None:
            packs.append([row])
            sizes.append(alone)
        else:
            packs[best[2]].append(row)
            sizes[best[2]] = -best[1]
    if len(packs) % multiple_of:
        packs = _even(rows, order, packs, most_tokens, before, multiple_of)
    sizes = [n_laid([rows[k] for k in own], before=before) for own in packs]
    return [packs[k] for k in sorted(range(len(packs)), key=lambda k: (sizes[k], packs[k]))]


def _even(
    rows: Sequence[EncodedRow],
    order: Sequence[int],
    packs: list[list[int]],
    most_tokens: int,
    before: int,
    multiple_of: int,
) -> list[list[int]]:
    """Rows dealt to the emptiest of as many packs as come out even; the packs as they were where that fits nowhere."""
    n = min(-(-len(packs) // multiple_of) * multiple_of, len(rows))
    dealt: list[list[int]] = [[] for _ in range(n)]
    sizes = [0] * n
    for row in order:
        k = min(range(n), key=lambda k: (sizes[k], k))
        dealt[k].append(row)
        sizes[k] = n_laid([rows[other] for other in dealt[k]], before=before)
    return dealt if max(sizes) + before <= most_tokens else packs
