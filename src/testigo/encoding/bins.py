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
    at = 0
    while at < len(order):
        with_room = [k for k in range(len(packs)) if sizes[k] + before < most_tokens]
        if len(with_room) == 1:  # nothing to choose: as many at once as it takes
            only = with_room[0]
            taken = _taken(rows, packs[only], order[at:], most_tokens - before, before)
            packs[only] += order[at : at + taken]
            sizes[only] = n_laid([rows[k] for k in packs[only]], before=before)
            at += taken
        if len(with_room) < 2:
            packs += [order[at : at + 1]] if at < len(order) else []
            sizes += [rows[k].n_tokens - before for k in order[at : at + 1]]
        else:
            _put(rows, order[at], packs, sizes, with_room, most_tokens - before, before)
        at += 1
    if len(packs) % multiple_of:
        packs = _even(rows, order, packs, most_tokens, before, multiple_of)
    sizes = [n_laid([rows[k] for k in own], before=before) for own in packs]
    return [packs[k] for k in sorted(range(len(packs)), key=lambda k: (sizes[k], packs[k]))]


def _put(
    rows: Sequence[EncodedRow],
    row: int,
    packs: list[list[int]],
    sizes: list[int],
    with_room: Sequence[int],
    most: int,
    before: int,
) -> None:
    """A row into the pack that it fills best; into one of its own where it fits nowhere."""
    best: tuple[int, int, int] | None = None
    alone = rows[row].n_tokens - before
    for k in sorted(with_room, key=lambda k: -sizes[k])[:MOST_LOOKED_AT]:
        size = n_laid([rows[other] for other in (*packs[k], row)], before=before)
        if size <= most:
            candidate = (min(size - sizes[k], alone), -size, k)
            best = candidate if best is None else min(best, candidate)
    if best is None:
        packs.append([row])
        sizes.append(alone)
    else:
        packs[best[2]].append(row)
        sizes[best[2]] = -best[1]


def _taken(rows: Sequence[EncodedRow], own: list[int], waiting: Sequence[int], most: int, before: int) -> int:
    """How many of the waiting rows, from the first on, fit into a pack beside its own; in few tries."""
    low, high, step = 0, len(waiting) + 1, 1  # `low` fit, `high` do not
    while high - low > 1:
        n = min(low + step, high - 1)
        if n_laid([rows[k] for k in (*own, *waiting[:n])], before=before) <= most:
            low, step = n, 2 * step
        else:
            high, step = n, max((n - low) // 2, 1)
    return low


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


def microbatches(rows: Sequence[int], lengths: Sequence[int], size: int) -> list[list[int]]:
    """Lay the rows of one update into microbatches of at most `size`, alike lengths together.

    Which rows meet in a microbatch never changes the gradient: the loss is normalised over the whole update.
    """
    ordered = sorted(rows, key=lambda row: (lengths[row], row))
    return [ordered[start : start + size] for start in range(0, len(ordered), size)]
