"""How long rows are, what the length policy does to them, and what each maximum length would cut."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from testigo.inspection.choosing import Chosen
from testigo.inspection.material import SPLITS, Material
from testigo.inspection.seeing import state_of

N_BINS = 24
_SHARES = (0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
_STEPS = (1, 2, 4, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1000, 2000, 2500, 5000, 10_000, 20_000, 50_000, 100_000)


@dataclass(frozen=True)
class Length:
    """One row in numbers [tokens]: whole, as it is before any policy; `state` is what the policy does to it."""

    id: str
    category: str
    n_tokens: int
    n_supervised: int
    state: str


@dataclass(frozen=True)
class Lengths:
    """All rows of both splits in numbers, under one policy."""

    rows: Mapping[str, tuple[Length, ...]]
    maximum_length: int
    longer: str

    @property
    def categories(self) -> tuple[str, ...]:
        """The categories of all rows, by name."""
        return tuple(sorted({row.category for rows in self.rows.values() for row in rows}))

    @property
    def longest(self) -> int:
        """Of all rows [tokens]."""
        return max((row.n_tokens for rows in self.rows.values() for row in rows), default=0)

    def ids(self, split: str, state: str) -> tuple[str, ...]:
        """The rows of a split that the policy does something to."""
        return tuple(row.id for row in self.rows[split] if row.state == state)

    def to_json(self) -> dict[str, Any]:
        """Plain values: summaries by split and category, ids of rows that the policy touches, what maxima would cut."""
        touched = ("too long", "dropped", "input shortened")
        return {
            "maximum_length": self.maximum_length,
            "longer": self.longer,
            "summaries": [summary.__dict__ for summary in summaries(self)],
            "rows": {split: {state: list(self.ids(split, state)) for state in touched} for split in self.rows},
            "cuts": [{"maximum_length": cut.maximum_length, "rows": cut.rows, "shares": cut.shares}
                     for cut in cuts(self)],
        }  # fmt: skip


@dataclass(frozen=True)
class Summary:
    """The lengths of a split or of one of its categories [tokens]; the answer is what counts in the loss."""

    split: str
    category: str | None
    rows: int
    shortest: int
    median: float
    p95: float
    longest: int
    longest_row: str
    longest_answer: int


@dataclass(frozen=True)
class Cut:
    """What a maximum length would cut: rows that are longer, by split, and their share of the split."""

    maximum_length: int
    rows: dict[str, int]
    shares: dict[str, float]


@dataclass(frozen=True)
class Bin:
    """How many rows of a split have from `low` to below `high` tokens, by category."""

    low: int
    high: int
    rows: dict[str, int]


def measure(material: Material, on_row: Callable[[], object] = lambda: None) -> Lengths:
    """Every row that is not sealed, encoded whole."""
    encoder = material.encoder
    whole = replace(encoder, longer="refuse") if encoder.longer == "truncate" else encoder
    found: dict[str, tuple[Length, ...]] = {}
    for split in SPLITS:
        own = []
        for row in material.rows(split):
            encoded = material.encoded(row) if whole is encoder else whole.encode(row)
            state = state_of(material, Chosen(split, row))
            own.append(Length(row.id, row.category, encoded.n_tokens, encoded.n_supervised, state))
            on_row()
        found[split] = tuple(own)
    return Lengths(found, encoder.maximum_length, encoder.longer)


def summaries(lengths: Lengths) -> tuple[Summary, ...]:
    """Each split, and where there are categories each of them."""
    made = []
    for split, rows in lengths.rows.items():
        names: tuple[str | None, ...] = (None, *(lengths.categories if len(lengths.categories) > 1 else ()))
        for name in names:
            own = [row for row in rows if name is None or row.category == name]
            if own:
                made.append(_summary(split, name, own))
    return tuple(made)


def _summary(split: str, category: str | None, rows: Sequence[Length]) -> Summary:
    every = np.array([row.n_tokens for row in rows])
    longest = min(rows, key=lambda row: (-row.n_tokens, row.id))
    return Summary(
        split=split,
        category=category,
        rows=len(rows),
        shortest=int(every.min()),
        median=float(np.median(every)),
        p95=float(np.percentile(every, 95)),
        longest=longest.n_tokens,
        longest_row=longest.id,
        longest_answer=max(row.n_supervised for row in rows),
    )


def cuts(lengths: Lengths) -> tuple[Cut, ...]:
    """Rows that each of some maxima would cut: round numbers around the quantiles, the longest row, the campaign's own.

    Quantiles are rounded up to a multiple of 8; beside them stand 2^k and 3·2^k. The last of the list cuts no row.
    """
    every = sorted(row.n_tokens for rows in lengths.rows.values() for row in rows)
    if not every:
        return ()
    by_split = {split: sorted(row.n_tokens for row in rows) for split, rows in lengths.rows.items()}
    low, high = every[0], every[-1]
    around = {1 << power for power in range(4, 24)} | {3 << power for power in range(3, 22)}
    steps = {-(-int(every[int(share * (len(every) - 1))]) // 8) * 8 for share in _SHARES}
    maxima = {n for n in around | steps if low < n < high} | {high}
    maxima |= {min((n for n in around if n >= high), default=high)}
    if lengths.maximum_length <= 2 * high:
        maxima.add(lengths.maximum_length)
    return tuple(_cut(maximum, by_split) for maximum in sorted(maxima))


def _cut(maximum: int, by_split: Mapping[str, Sequence[int]]) -> Cut:
    rows = {split: len(own) - bisect_right(own, maximum) for split, own in by_split.items()}
    return Cut(maximum, rows, {split: rows[split] / max(len(own), 1) for split, own in by_split.items()})


def bins(lengths: Lengths) -> dict[str, tuple[Bin, ...]]:
    """The distribution by split and category, in steps of round numbers that all splits share."""
    every = [row.n_tokens for rows in lengths.rows.values() for row in rows]
    if not every:
        return dict.fromkeys(lengths.rows, ())
    span = max(every) - min(every) + 1
    step = next((step for step in _STEPS if span <= step * N_BINS), span)
    edges = range(min(every) // step * step, max(every) + 1, step)
    made = {}
    for split, rows in lengths.rows.items():
        counts = Counter((row.n_tokens // step * step, row.category) for row in rows)
        made[split] = tuple(
            Bin(low, low + step, {name: counts[low, name] for name in lengths.categories}) for low in edges
        )
    return made
