"""Which rows make which update: a pure function of seed and number, so that a resume needs a cursor and no replay."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache

import numpy as np


@dataclass(frozen=True)
class Order:
    """The rows of a run as one stream: epoch after epoch, each in an order of its own.

    Attributes
    ----------
    n_rows
        In the training split.
    rows_per_update
        Microbatch × accumulation × data replicas.
    n_updates
        Planned.
    ends_with_epoch
        With epochs declared, the last update ends with the last row of the last epoch, and may be smaller.
    """

    n_rows: int
    rows_per_update: int
    n_updates: int
    seed: int
    n_stream: int | None = None

    @classmethod
    def planned(
        cls, *, n_rows: int, microbatch: int, accumulation: int, replicas: int, seed: int,
        updates: int | None, epochs: float | None,
    ) -> Order:  # fmt: skip
        """From the campaign's settings: either updates or epochs are given, the other follows."""
        per_update = microbatch * accumulation * replicas
        if updates is not None:
            return cls(n_rows, per_update, updates, seed)
        assert epochs is not None
        n_stream = max(round(n_rows * epochs), 1)
        return cls(n_rows, per_update, -(-n_stream // per_update), seed, n_stream)

    def rows_of(self, update: int) -> tuple[int, ...]:
        """The indices of the rows of an update, counted from 1."""
        start = (update - 1) * self.rows_per_update
        stop = start + self.rows_per_update
        if self.n_stream is not None:
            stop = min(stop, self.n_stream)
        return tuple(int(_epoch(self.n_rows, self.seed, k // self.n_rows)[k % self.n_rows]) for k in range(start, stop))

    def epochs_of(self, update: int) -> dict[int, list[int]]:
        """In which epochs each row of an update is seen, in order: in two where one epoch ends and another begins."""
        start = (update - 1) * self.rows_per_update
        epochs: dict[int, list[int]] = {}
        for place, row in enumerate(self.rows_of(update), start):
            epochs.setdefault(row, []).append(place // self.n_rows)
        return epochs

    def epoch_after(self, update: int) -> float:
        """How many times the data was gone through after an update."""
        seen = update * self.rows_per_update
        return (seen if self.n_stream is None else min(seen, self.n_stream)) / self.n_rows


@lru_cache(maxsize=2)
def _epoch(n_rows: int, seed: int, epoch: int) -> np.ndarray:
    return np.random.Generator(np.random.PCG64([seed, epoch])).permutation(n_rows)


def seed_of(*parts: int | str) -> int:
    """A seed for the global generator from what it is for: (seed, update, microbatch). 63 bits of SHA-256."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "big") >> 1
