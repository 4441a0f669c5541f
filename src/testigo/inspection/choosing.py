"""Which rows are looked at."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from testigo.corpus import Row
from testigo.errors import DataError
from testigo.inspection.material import SPLITS, Material


@dataclass(frozen=True)
class Chosen:
    """A row and the split that it stands in."""

    split: str
    row: Row


def by_id(material: Material, ids: Sequence[str]) -> tuple[Chosen, ...]:
    """The named rows, in that order.

    Raises
    ------
    DataError
        When an id is of no training or validation row; the test rows are sealed.
    """
    known = {row.id: Chosen(split, row) for split in SPLITS for row in material.rows(split)}
    missing = [row_id for row_id in ids if row_id not in known]
    if missing:
        raise DataError(
            expected="ids of training or validation rows",
            found=f"unknown: {', '.join(missing)}",
            where="--row",
            action="look the id up in the rows; test rows are sealed and not shown",
        )
    return tuple(known[row_id] for row_id in ids)


def of_category(material: Material, split: str, category: str | None) -> tuple[Row, ...]:
    """The rows of a split, or of one category of it.

    Raises
    ------
    DataError
        When there is no row of this category.
    """
    rows = material.rows(split)
    own = tuple(row for row in rows if category is None or row.category == category)
    if not own:
        names = sorted({row.category for row in rows})
        raise DataError(
            expected=f"one of the categories {', '.join(names)}",
            found=f"'{category}'",
            where="--category",
            action="name one of them",
        )
    return own


def each_category(material: Material, n: int = 1, *, split: str | None = None) -> tuple[Chosen, ...]:
    """`n` rows of every category, and of every class where an answer is one; from training, or else from validation.

    Which rows follows from their content alone, so that not the first lines of a file speak for all.
    """
    task = material.encoder.task
    found: dict[tuple[str, str], list[Chosen]] = {}
    for name in SPLITS if split is None else (split,):
        mixed = sorted(material.rows(name), key=lambda row: (row.digest, row.id))
        fresh: dict[tuple[str, str], list[Chosen]] = {}
        for row in mixed:
            key = row.category, task.target(row.fields) if task.labels else ""
            if key not in found and len(fresh.setdefault(key, [])) < n:
                fresh[key].append(Chosen(name, row))
        found |= fresh
    return tuple(one for key in sorted(found) for one in found[key])


def spread(split: str, rows: Sequence[Row], n: int) -> tuple[Chosen, ...]:
    """`n` rows, taken evenly from all."""
    step = max(len(rows) // n, 1)
    return tuple(Chosen(split, row) for row in rows[::step][:n])


def longest(
    material: Material, split: str, rows: Iterable[Row], n: int, on_row: Callable[[], object] = lambda: None
) -> tuple[Chosen, ...]:
    """The `n` rows of most tokens, the longest first; all rows are encoded for it."""

    def length(row: Row) -> tuple[int, str]:
        on_row()
        return -material.encoded(row).n_tokens, row.id

    return tuple(Chosen(split, row) for row in sorted(rows, key=length)[:n])


def strangest(split: str, rows: Iterable[Row], losses: Mapping[str, float], n: int) -> tuple[Chosen, ...]:
    """The `n` rows of highest loss under the base among those that were measured."""
    measured = [row for row in rows if row.id in losses]
    return tuple(Chosen(split, row) for row in sorted(measured, key=lambda row: (-losses[row.id], row.id))[:n])


def random_rows(rows: Sequence[Row], n: int, seed: int) -> tuple[Row, ...]:
    """`n` rows drawn without replacement; the same seed draws the same."""
    return tuple(random.Random(seed).sample(list(rows), min(n, len(rows))))
