from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testigo.corpus.row import Row
from testigo.corpus.splitting import join_components, split_rows, suggest_seed

SHARES = {"train": 0.7, "validation": 0.15, "test": 0.15}


def rows_of(sizes: Sequence[int], categories: str = "a", start: int = 0) -> list[Row]:
    """One group for each size, its rows in one category."""
    return [
        Row(f"{start + g}-{n}", f"g{start + g}", categories[(start + g) % len(categories)], {}, "")
        for g, size in enumerate(sizes)
        for n in range(size)
    ]


def split(
    rows: Sequence[Row], pairs: Sequence[tuple[int, int]] = (), seed: int = 0, cuts: str = "fixed"
) -> dict[str, str]:
    names = split_rows(rows, join_components(rows, pairs), SHARES, seed, cuts=cuts)
    return {row.id: name for row, name in zip(rows, names, strict=True)}


def shares(names: Sequence[str]) -> dict[str, float]:
    return {name: n / len(names) for name, n in Counter(names).items()}


# ---- fixed cuts: a group's split follows from its name alone


GROUPS = st.lists(st.integers(1, 4), min_size=1, max_size=25)
EDGES = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 200)), max_size=8)
RANK = {"train": 0, "validation": 1, "test": 2}


def joined(rows: Sequence[Row], edges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    return [(one % len(rows), other % len(rows)) for one, other in edges]


@given(GROUPS, GROUPS, EDGES, EDGES, st.integers(0, 3))
def test_added_rows_move_no_old_row(
    old: list[int], new: list[int], edges: list[tuple[int, int]], more: list[tuple[int, int]], seed: int
) -> None:
    rows, added = rows_of(old, "abc"), rows_of(new, "abcd", start=len(old))
    among_old = joined(rows, edges)
    among_new = [(one + len(rows), other + len(rows)) for one, other in joined(added, more)]
    before = split(rows, among_old, seed)
    after = split([*rows, *added], [*among_old, *among_new], seed)
    assert {row.id: after[row.id] for row in rows} == before


@given(GROUPS, GROUPS, EDGES, EDGES, st.integers(0, 3))
def test_rows_that_join_old_groups_never_carry_an_evaluation_row_towards_training(
    old: list[int], new: list[int], edges: list[tuple[int, int]], more: list[tuple[int, int]], seed: int
) -> None:
    rows, added = rows_of(old, "abc"), rows_of(new, "abcd", start=len(old))
    every = [*rows, *added]
    before = split(rows, joined(rows, edges), seed)
    after = split(every, [*joined(rows, edges), *joined(every, more)], seed)
    assert all(RANK[after[row.id]] >= RANK[before[row.id]] for row in rows)


@given(GROUPS, st.integers(0, 24), st.integers(0, 24), st.integers(0, 3))
def test_more_rows_of_old_groups_move_nothing(old: list[int], one: int, other: int, seed: int) -> None:
    rows = rows_of(old, "ab")
    groups = [rows[n % len(rows)].group for n in (one, other)]
    added = [Row(f"new{n}", group, "z", {}, "") for n, group in enumerate(groups)]
    before, after = split(rows, seed=seed), split([*rows, *added], seed=seed)
    assert {row.id: after[row.id] for row in rows} == before


def test_a_copy_that_was_left_out_still_ties_its_group() -> None:
    rows = rows_of([1] * 400)
    before = split(rows)
    tested, trained = (next(row for row in rows if before[row.id] == name) for name in ("test", "train"))
    tied = {trained.id: {tested.group}}
    names = split_rows([trained], (0,), SHARES, 0, tied=tied)
    assert names == ["test"]


@pytest.mark.parametrize("seed", range(3))
def test_fixed_cuts_miss_a_share_by_no_more_than_chance(seed: int) -> None:
    rows = rows_of([1] * 4_000, "abcd")
    placed = split(rows, seed=seed)
    for category in "abcd":
        found = shares([placed[row.id] for row in rows if row.category == category])
        for name, share in SHARES.items():
            assert abs(found[name] - share) < 4 * (share * (1 - share) / 1_000) ** 0.5


def test_a_suggested_seed_fits_every_category_better() -> None:
    rows = rows_of([1 + n % 3 for n in range(90)], "abc")
    components = join_components(rows, ())

    def miss(seed: int) -> int:
        placed = split(rows, seed=seed)
        counts = Counter((row.category, placed[row.id]) for row in rows)
        return sum(abs(counts[c, name] - round(SHARES[name] * 60)) for c in "abc" for name in ("validation", "test"))

    seed = suggest_seed(rows, components, SHARES)
    assert seed is not None
    assert miss(seed) < sorted(miss(other) for other in range(200))[20]


def test_huge_data_get_no_suggestion() -> None:
    rows = rows_of([1] * 100_001)
    assert suggest_seed(rows, range(len(rows)), SHARES) is None


# ---- fitted cuts: exact shares


@pytest.mark.parametrize("seed", range(5))
def test_shares_hold_in_every_category(seed: int) -> None:
    rows = rows_of([1 + n % 5 for n in range(240)], "abcd")
    placed = split(rows, seed=seed, cuts="fitted")
    for category in "abcd":
        found = shares([placed[row.id] for row in rows if row.category == category])
        assert found == pytest.approx(SHARES, abs=0.061)  # each cut within 0.03, validation lies between two


@given(st.lists(st.integers(1, 6), min_size=3, max_size=40), st.integers(0, 9))
def test_three_groups_are_enough_for_three_splits(sizes: list[int], seed: int) -> None:
    assert set(split(rows_of(sizes), seed=seed, cuts="fitted").values()) == {"train", "validation", "test"}


@given(
    st.lists(st.integers(1, 4), min_size=3, max_size=30),
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 200)), max_size=8),
    st.integers(0, 3),
    st.sampled_from(["fixed", "fitted"]),
)
def test_neither_a_group_nor_a_pair_straddles_a_split(
    sizes: list[int], pairs: list[tuple[int, int]], seed: int, cuts: str
) -> None:
    rows = rows_of(sizes, "ab")
    inside = joined(rows, pairs)
    placed = split(rows, inside, seed, cuts)
    where: dict[str, set[str]] = {}
    for row in rows:
        where.setdefault(row.group, set()).add(placed[row.id])
    assert all(len(names) == 1 for names in where.values())
    assert all(placed[rows[one].id] == placed[rows[other].id] for one, other in inside)


@given(st.randoms(use_true_random=False), st.sampled_from(["fixed", "fitted"]))
def test_the_order_of_rows_does_not_matter(random: object, cuts: str) -> None:
    rows = rows_of([1 + n % 3 for n in range(40)], "abc")
    mixed = list(rows)
    random.shuffle(mixed)  # type: ignore[attr-defined]
    assert split(rows, cuts=cuts) == split(mixed, cuts=cuts)


@pytest.mark.parametrize("seed", range(10))
def test_added_rows_move_few_groups_and_never_between_train_and_test(seed: int) -> None:
    old = rows_of([1 + n % 4 for n in range(300)], "abc")
    before = split(old, seed=seed, cuts="fitted")
    after = split(old + rows_of([2] * 15, "abc", start=300), seed=seed, cuts="fitted")
    moved = [(before[row.id], after[row.id]) for row in old if before[row.id] != after[row.id]]
    assert len(moved) <= 0.04 * len(old)
    assert {"train", "test"} not in [set(pair) for pair in moved]


def test_in_large_data_added_rows_move_nothing() -> None:
    old = rows_of([1] * 8_000, "ab")
    before = split(old, cuts="fitted")
    after = split(old + rows_of([1] * 800, "ab", start=8_000), cuts="fitted")
    assert {row.id: after[row.id] for row in old} == before


def test_another_seed_is_another_split() -> None:
    rows = rows_of([1] * 60)
    assert split(rows, seed=1) != split(rows, seed=2)


def test_categories_with_few_groups_are_split_together() -> None:
    rows = rows_of([1] * 60, "abcdefghijklmnopqrst")  # three groups in each
    assert shares(list(split(rows, cuts="fitted").values())) == pytest.approx(SHARES, abs=0.05)
