"""Which rows train, which guide, which decide.

The unit is the component: rows that share a group, or are joined by a copy, a conflict or a near-duplicate, stay
together.

Each component gets a number in [0, 1): the SHA-256 of the split's seed and of its group (of several groups, the
least). The number depends on nothing else, so it stays when rows are added. Within a stratum (the components' most
frequent category) the numbers from 0 to a first cut are test, from there to a second cut validation, the rest training.
A cut stands at the declared share; where the rows would then miss the share by more than `TOLERANCE`, it moves to the
nearest place that does not.

The trade-off: fixed cuts would never move a row, and would give small data wrong shares or an empty validation; cuts by
rank would give exact shares, and move rows with every addition. Here rows move only when a cut must: never in data of
thousands of groups in a stratum, a group or two in data of hundreds, more in small data, and then between neighbours:
test and validation, or validation and training. Who needs an eternal test set gives it as a file.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from testigo.corpus.row import Row

TOLERANCE = 0.03
"""How far a stratum's share of rows may lie from the declared one before its cuts move: a choice of ours, about one
group in a stratum of thirty."""
ORDER = ("test", "validation", "train")


def join_components(rows: Sequence[Row], pairs: Iterable[tuple[int, int]]) -> tuple[int, ...]:
    """For each row the number of its component, from its group and from pairs of places that belong together."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    if not rows:
        return ()
    first: dict[str, int] = {}
    edges = [(first.setdefault(row.group, place), place) for place, row in enumerate(rows)] + list(pairs)
    ends = np.array(edges, dtype=np.int64)
    graph = coo_array((np.ones(len(ends), dtype=np.int8), (ends[:, 0], ends[:, 1])), shape=(len(rows), len(rows)))
    _, labels = connected_components(graph, directed=False)
    return tuple(int(label) for label in labels)


def split_rows(rows: Sequence[Row], components: Sequence[int], shares: Mapping[str, float], seed: int) -> list[str]:
    """The split of each row: "train", "validation" or "test".

    Parameters
    ----------
    shares
        Split -> its share of these rows; they are brought to a sum of 1.
    """
    members: dict[int, list[int]] = defaultdict(list)
    for place, component in enumerate(components):
        members[component].append(place)
    strata: dict[str, list[tuple[float, list[int]]]] = defaultdict(list)
    for places in members.values():
        number = min(_number(seed, rows[place].group) for place in places)
        strata[_most_frequent(rows[place].category for place in places)].append((number, places))
    total = sum(shares.values())
    wanted = {name: shares[name] / total for name in ORDER if shares.get(name)}
    split = ["train"] * len(rows)
    for units in _pool_small(strata, min(wanted.values())):
        units.sort()
        sizes = [len(places) for _, places in units]
        ends = _ends([number for number, _ in units], sizes, list(wanted.values()))
        start = 0
        for name, end in zip(wanted, ends, strict=True):
            for _, places in units[start:end]:
                for place in places:
                    split[place] = name
            start = end
    return split


def _ends(numbers: Sequence[float], sizes: Sequence[int], shares: Sequence[float]) -> list[int]:
    """How many units end each split, in order; the last split takes the rest. `numbers` are sorted."""
    below = np.concatenate([[0], np.cumsum(sizes)]) / sum(sizes)  # share of rows in the first k units
    ends: list[int] = []
    cut = 0.0
    for share in shares[:-1]:
        cut += share
        left = len(shares) - 1 - len(ends)  # splits that still need a unit after this one
        lowest = (ends[-1] if ends else 0) + 1
        allowed = list(range(lowest, len(sizes) - left + 1)) or [min(lowest, len(sizes))]
        nominal = int(np.searchsorted(numbers, cut))
        near = [k for k in allowed if abs(below[k] - cut) <= TOLERANCE]
        if near:
            ends.append(min(near, key=lambda k: (abs(k - nominal), k)))
        else:
            ends.append(min(allowed, key=lambda k: (abs(below[k] - cut), abs(k - nominal), k)))
    return [*ends, len(sizes)]


def _pool_small(
    strata: Mapping[str, list[tuple[float, list[int]]]], least_share: float
) -> list[list[tuple[float, list[int]]]]:
    """Strata with too few components for the smallest share are split together."""
    large: list[list[tuple[float, list[int]]]] = []
    pool: list[tuple[float, list[int]]] = []
    for name in sorted(strata):
        if len(strata[name]) * least_share >= 1:
            large.append(strata[name])
        else:
            pool += strata[name]
    if pool and large and len(pool) * least_share < 1:
        large[-1] = large[-1] + pool
        pool = []
    return [units for units in (*large, pool) if units]


def _number(seed: int, group: str) -> float:
    digest = hashlib.sha256(f"{seed}\x1f{group}".encode()).digest()
    return int.from_bytes(digest[:7]) / 2**56  # 56 bits: below 1.0 also after rounding to a double


def _most_frequent(categories: Iterable[str]) -> str:
    counts = Counter(categories)
    return min(counts, key=lambda category: (-counts[category], category))
