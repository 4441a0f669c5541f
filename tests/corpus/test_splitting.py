from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testigo.corpus.row import Row
from testigo.corpus.splitting import join_components, split_rows

SHARES = {"train": 0.7, "validation": 0.15, "test": 0.15}


def rows_of(sizes: Sequence[int], categories: str = "a", start: int = 0) -> list[Row]:
    """One group for each size, its rows in one category."""
    return [
        Row(f"{start + g}-{n}", f"g{start + g}", categories[(start + g) % len(categories)], {}, "")
        for g, size in enumerate(sizes)
        for n in range(size)
    ]


def split(rows: Sequence[Row], pairs: Sequence[tuple[int, int]] = (), seed: int = 0) -> dict[str, str]:
    names = split_rows(rows, join_components(rows, pairs), SHARES, seed)
    return {row.id: name for row, name in zip(rows, names, strict=True)}


def shares(names: Sequence[str]) -> dict[str, float]:
    return {name: n / len(names) for name, n in Counter(names).items()}


@pytest.mark.parametrize("seed", range(5))
def test_shares_hold_in_every_category(seed: int) -> None:
    rows = rows_of([1 + n % 5 for n in range(240)], "abcd")
    placed = split(rows, seed=seed)
    for category in "abcd":
        found = shares([placed[row.id] for row in rows if row.category == category])
        assert found == pytest.approx(SHARES, abs=0.061)  # each cut within 0.03, validation lies between two


@given(st.lists(st.integers(1, 6), min_size=3, max_size=40), st.integers(0, 9))
def test_three_groups_are_enough_for_three_splits(sizes: list[int], seed: int) -> None:
    assert set(split(rows_of(sizes), seed=seed).values()) == {"train", "validation", "test"}


@given(
    st.lists(st.integers(1, 4), min_size=3, max_size=30),
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 200)), max_size=8),
    st.integers(0, 3),
)
def test_neither_a_group_nor_a_pair_straddles_a_split(
    sizes: list[int], pairs: list[tuple[int, int]], seed: int
) -> None:
    rows = rows_of(sizes, "ab")
    joined = [(one % len(rows), other % len(rows)) for one, other in pairs]
    placed = split(rows, joined, seed)
    where: dict[str, set[str]] = {}
    for row in rows:
        where.setdefault(row.group, set()).add(placed[row.id])
    assert all(len(names) == 1 for names in where.values())
    assert all(placed[rows[one].id] == placed[rows[other].id] for one, other in joined)


@given(st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(random: object) -> None:
    rows = rows_of([1 + n % 3 for n in range(40)], "abc")
    mixed = list(rows)
    random.shuffle(mixed)  # type: ignore[attr-defined]
    assert split(rows) == split(mixed)


@pytest.mark.parametrize("seed", range(10))
def test_added_rows_move_few_groups_and_never_between_train_and_test(seed: int) -> None:
    old = rows_of([1 + n % 4 for n in range(300)], "abc")
    before = split(old, seed=seed)
    after = split(old + rows_of([2] * 15, "abc", start=300), seed=seed)
    moved = [(before[row.id], after[row.id]) for row in old if before[row.id] != after[row.id]]
    assert len(moved) <= 0.04 * len(old)
    assert {"train", "test"} not in [set(pair) for pair in moved]


def test_in_large_data_added_rows_move_nothing() -> None:
    old = rows_of([1] * 8_000, "ab")
    before = split(old)
    after = split(old + rows_of([1] * 800, "ab", start=8_000))
    assert {row.id: after[row.id] for row in old} == before


def test_another_seed_is_another_split() -> None:
    rows = rows_of([1] * 60)
    assert split(rows, seed=1) != split(rows, seed=2)


def test_categories_with_few_groups_are_split_together() -> None:
    rows = rows_of([1] * 60, "abcdefghijklmnopqrst")  # three groups in each
    assert shares(list(split(rows).values())) == pytest.approx(SHARES, abs=0.05)
