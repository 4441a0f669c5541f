"""Which rows make which update."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testigo.encoding import microbatches
from testigo.training.order import Order, seed_of


def order(n_rows: int = 10, *, microbatch: int = 2, accumulation: int = 1, **settings: Any) -> Order:
    given = {"replicas": 1, "seed": 0, "updates": None, "epochs": None} | settings
    return Order.planned(n_rows=n_rows, microbatch=microbatch, accumulation=accumulation, **given)


def stream(own: Order) -> list[int]:
    return [row for update in range(1, own.n_updates + 1) for row in own.rows_of(update)]


@given(
    n_rows=st.integers(1, 40), microbatch=st.integers(1, 5), accumulation=st.integers(1, 4), epochs=st.integers(1, 4)
)
def test_each_epoch_goes_once_through_every_row(n_rows: int, microbatch: int, accumulation: int, epochs: int) -> None:
    own = order(n_rows, microbatch=microbatch, accumulation=accumulation, epochs=float(epochs))
    rows = stream(own)
    assert len(rows) == n_rows * epochs
    for epoch in range(epochs):
        assert sorted(rows[epoch * n_rows : (epoch + 1) * n_rows]) == list(range(n_rows))
    assert own.epoch_after(own.n_updates) == epochs


@given(update=st.integers(1, 200), seed=st.integers(0, 2**32 - 1))
def test_the_rows_of_an_update_need_no_history(update: int, seed: int) -> None:
    own = order(7, seed=seed, updates=200)
    expected = stream(own)[2 * (update - 1) : 2 * update]
    assert own.rows_of(update) == order(7, seed=seed, updates=200).rows_of(update) == tuple(expected)


def test_epochs_and_seeds_differ_in_their_order() -> None:
    rows = stream(order(30, epochs=2.0))
    assert rows[:30] != rows[30:]
    assert rows != stream(order(30, epochs=2.0, seed=1))


@pytest.mark.parametrize(
    ("settings", "n_updates", "last"),
    [
        ({"epochs": 3.0, "microbatch": 2}, 15, 2),
        ({"epochs": 1.0, "microbatch": 4}, 3, 2),
        ({"epochs": 1.0, "microbatch": 2, "accumulation": 4}, 2, 2),
        ({"epochs": 0.25, "microbatch": 1}, 2, 1),
        ({"epochs": 0.01, "microbatch": 4}, 1, 1),
        ({"updates": 7, "microbatch": 3, "accumulation": 2}, 7, 6),
    ],
)
def test_updates_follow_from_epochs(settings: dict[str, Any], n_updates: int, last: int) -> None:
    own = order(10, **settings)
    assert own.n_updates == n_updates
    assert len(own.rows_of(n_updates)) == last


def test_replicas_take_rows_of_the_same_update() -> None:
    assert order(10, updates=1, replicas=3).rows_per_update == 6


@given(lengths=st.lists(st.integers(1, 99), min_size=1, max_size=30), size=st.integers(1, 7))
def test_microbatches_hold_each_row_once_with_alike_lengths_together(lengths: list[int], size: int) -> None:
    rows = list(range(len(lengths)))[::-1]
    made = microbatches(rows, lengths, size)
    flat = [row for batch in made for row in batch]
    assert Counter(flat) == Counter(rows)
    assert all(0 < len(batch) <= size for batch in made)
    assert len(made) == -(-len(rows) // size)
    assert [lengths[row] for row in flat] == sorted(lengths)


def test_the_place_in_the_data_is_counted_once_whatever_was_accumulated() -> None:  # C32
    """A hundred batches of two rows, four of them an update, 750 updates, and a run that goes on after 500."""
    order = Order.planned(n_rows=200, microbatch=2, accumulation=4, replicas=1, seed=3, updates=750, epochs=None)
    seen = [row for update in range(501, order.n_updates + 1) for row in order.rows_of(update)]
    assert order.n_updates == 750
    assert len(seen) == 250 * 8
    assert sorted(seen) == sorted(list(range(200)) * 10), "ten whole epochs are left, none of them repeated"
    assert order.epoch_after(500) == 20.0


def test_each_microbatch_has_a_seed_of_its_own() -> None:
    seeds = {seed_of(run, update, number) for run in range(3) for update in range(20) for number in range(4)}
    assert len(seeds) == 240
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_order_and_seeds_are_the_same_in_every_process_and_version() -> None:
    assert seed_of(0, 1, 2) == 8462395873746552714
    assert order(10, accumulation=2, seed=7, updates=3).rows_of(2) == (3, 6, 2, 4)
