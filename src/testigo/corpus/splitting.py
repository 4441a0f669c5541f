"""Which rows train, which guide, which decide.

The unit is the component: rows that share a group, or are joined by a copy, a conflict or a near-duplicate, stay
together.

Each component gets a number in [0, 1): the SHA-256 of the split's seed and of its group (of several groups, the
least). The number depends on nothing else, so it stays when rows are added. The numbers from 0 to a first cut are test,
from there to a second cut validation, the rest training.

**Fixed cuts**, the default where each evaluation split can expect `ENOUGH` components, stand at the declared shares. So
a component's split follows from its own groups alone, and rows added later move no row that was there. It cannot be
otherwise: a split that depends on no order, and in which no added row moves an old one, is a function of each component
by itself, which can rebalance nothing. The promise is therefore one of chance: of n components of equal size a share s
has the standard error sqrt(s (1 - s) / n) in every category alike: 15 % of 100 are 15 ± 3.6, of 1,000 are 150 ± 11.
`suggest_seed` names the seed among many whose numbers fit the rows at hand best; once it stands in the campaign file,
the split is as stable as with any other.

When an added row joins components that were apart, the least number decides, and the least numbers are test: old
training rows may follow an evaluation row into its split, never the other way about. No row that once examined a model
ever trains one. Its price: where many components were joined, test and validation get more than their shares.

**Fitted cuts** move, within each stratum (the components' most frequent category), to the nearest place at which the
stratum misses its share by no more than `TOLERANCE`. For data that are complete: rows added later move a group or two
in data of hundreds of groups, more in small data, and then between neighbours: test and validation, or validation and
training.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from testigo.corpus.row import Row

TOLERANCE = 0.03
"""How far a stratum's share of rows may lie from the declared one before its fitted cuts move: a choice of ours, about
one group in a stratum of thirty."""
ENOUGH = 10
"""Components that validation and test must expect for cuts to be fixed by themselves: from n p = 10 on a binomial count
is near normal, and misses its share by a third at most two times in three (Box, Hunter and Hunter 2005, chapter 3)."""
ORDER = ("test", "validation", "train")
_TRIALS = 100_000  # groups hashed for a suggestion, all seeds together: below half a second


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


def group_number(seed: int, group: str) -> float:
    """The number of a group in [0, 1), from nothing but its name and the seed."""
    digest = hashlib.sha256(f"{seed}\x1f{group}".encode()).digest()
    return int.from_bytes(digest[:7]) / 2**56  # 56 bits: below 1.0 also after rounding to a double


def split_rows(
    rows: Sequence[Row],
    components: Sequence[int],
    shares: Mapping[str, float],
    seed: int,
    *,
    cuts: str = "fixed",
    tied: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> list[str]:
    """The split of each row: "train", "validation" or "test".

    Parameters
    ----------
    shares
        Split -> its share of these rows; they are brought to a sum of 1.
    cuts
        `fixed` or `fitted`, as the module says.
    tied
        Row id -> groups of copies of it that were left out: they count as groups of the row, so that a copy that came
        later carries no evaluation row into training.
    """
    members: dict[int, list[int]] = defaultdict(list)
    for place, component in enumerate(components):
        members[component].append(place)
    numbers = {
        component: min(
            group_number(seed, group)
            for group in {g for place in places for g in (rows[place].group, *tied.get(rows[place].id, ()))}
        )
        for component, places in members.items()
    }
    if cuts == "fitted":
        return _fitted(rows, [(numbers[c], places) for c, places in members.items()], shares)
    names = _names_by_number(numbers.values(), shares)
    by_component = dict(zip(numbers, names, strict=True))
    return [by_component[component] for component in components]


def _names_by_number(numbers: Iterable[float], shares: Mapping[str, float]) -> list[str]:
    wanted = _wanted(shares)
    ends = np.cumsum(list(wanted.values()))[:-1]
    return [list(wanted)[int(np.searchsorted(ends, number, side="right"))] for number in numbers]


def _wanted(shares: Mapping[str, float]) -> dict[str, float]:
    """The shares in the order of the numbers, with a sum of 1."""
    total = sum(shares.values())
    return {name: shares[name] / total for name in ORDER if shares.get(name)}


def _fitted(rows: Sequence[Row], units: Iterable[tuple[float, list[int]]], shares: Mapping[str, float]) -> list[str]:
    strata: dict[str, list[tuple[float, list[int]]]] = defaultdict(list)
    for number, places in units:
        strata[_most_frequent(rows[place].category for place in places)].append((number, places))
    wanted = _wanted(shares)
    split = ["train"] * len(rows)
    for own in _pool_small(strata, min(wanted.values())):
        own.sort()
        sizes = [len(places) for _, places in own]
        ends = _ends([number for number, _ in own], sizes, list(wanted.values()))
        start = 0
        for name, end in zip(wanted, ends, strict=True):
            for _, places in own[start:end]:
                for place in places:
                    split[place] = name
            start = end
    return split


def suggest_seed(rows: Sequence[Row], components: Sequence[int], shares: Mapping[str, float]) -> int | None:
    """The seed whose fixed cuts come nearest to the shares, over all rows and in each category; None for huge data.

    Seeds from 0 on are tried, as many as `_TRIALS` allows; in data of so many groups that there are none to try, chance
    alone misses no share by much.
    """
    groups = sorted({row.group for row in rows})
    wanted = {name: share for name, share in _wanted(shares).items() if name != "train"}
    n_seeds = min(200, _TRIALS // max(len(groups), 1))
    if not n_seeds or not wanted:
        return None
    categories = Counter(row.category for row in rows)

    def miss(seed: int) -> float:
        placed = split_rows(rows, components, shares, seed)
        found = Counter(zip((row.category for row in rows), placed, strict=True))
        whole = Counter(placed)
        over_all = sum(abs(whole[name] - share * len(rows)) for name, share in wanted.items())
        inside = sum(abs(found[c, name] - share * n) for c, n in categories.items() for name, share in wanted.items())
        return over_all + inside

    return min(range(n_seeds), key=miss)


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


def _most_frequent(categories: Iterable[str]) -> str:
    counts = Counter(categories)
    return min(counts, key=lambda category: (-counts[category], category))
