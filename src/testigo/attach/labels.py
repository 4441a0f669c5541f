"""What the labels of the rows say: whether they are shifted, contradict each other, or come sorted by class."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence

from testigo.attach.rows import IGNORED, SeenRow

#: Of the labels, so many must be the token itself (or its neighbour) before anything is said about a shift.
SHIFT_SHARE = 0.9
ENOUGH_LABELS = 8
#: A row whose first tokens, so many, are outside the loss begins with a prompt.
LEAST_PROMPT = 4


def labels_shifted(rows: Sequence[SeenRow]) -> int | None:
    """Places that labels lie ahead of the tokens that they name; None where labels are not the row's own tokens."""
    hits, n = _places_of_labels(rows)
    fitting = [by for by in (0, 1, -1) if n >= ENOUGH_LABELS and hits[by] >= SHIFT_SHARE * n]
    return fitting[0] if len(fitting) == 1 else None


def labels_own_share(rows: Sequence[SeenRow]) -> float | None:
    """Share of the labels that are the row's own tokens, at the place beside which most of them lie."""
    hits, n = _places_of_labels(rows)
    return max((hits[by] / n for by in (0, 1, -1)), default=0.0) if n >= ENOUGH_LABELS else None


def _places_of_labels(rows: Sequence[SeenRow]) -> tuple[Counter[int], int]:
    """How many labels are the token of their own place, of the one before and of the one after; and of how many."""
    hits, n = Counter[int](), 0
    for row in rows:
        if row.labels is None:
            continue
        for t in range(1, len(row.ids) - 1):
            if row.labels[t] != IGNORED:
                n += 1
                hits.update(by for by in (-1, 0, 1) if row.labels[t] == row.ids[t + by])
    return hits, n


def conflicts(rows: Sequence[SeenRow]) -> tuple[tuple[str, str], ...]:
    """Training rows with the same input and other answers. A row's input are its tokens outside the loss; rows that do
    not begin with some have none.
    """
    first: dict[tuple[int, ...], tuple[SeenRow, tuple[int, ...]]] = {}
    pairs = []
    for row in rows:
        labels = row.labels or ()
        asked = tuple(token for token, label in zip(row.ids, labels, strict=False) if label == IGNORED)
        answer = tuple(label for label in labels if label != IGNORED)
        if not answer or any(label != IGNORED for label in labels[:LEAST_PROMPT]):
            continue
        other, known = first.setdefault(asked, (row, answer))
        if known != answer:
            pairs.append((other.id, row.id))
    return tuple(pairs)


def first_label(row: SeenRow) -> int:
    """The place of the first label of a row that has one."""
    return next(t for t, label in enumerate(row.labels or ()) if label != IGNORED)


def runs_of_classes(rows: Sequence[SeenRow], order: Sequence[int] | None) -> tuple[int, float, float] | None:
    """Stretches of one class in loading order, their mean and their deviation in a random order.

    Wald and Wolfowitz 1940, for several kinds: with n rows, n_k of class k and S2, S3 the sums of squares and cubes,
    the mean is (n (n + 1) - S2) / n and the variance (S2 (S2 + n (n + 1)) - 2 n S3 - n^3) / (n^2 (n - 1)).
    """
    by_index = {row.index: row.class_number for row in rows if row.class_number is not None}
    found = [by_index[k] for k in (order if order is not None else sorted(by_index)) if k in by_index]
    counts = Counter(found)
    n = len(found)
    if n < 32 or len(counts) < 2:
        return None
    squares, cubes = sum(k**2 for k in counts.values()), sum(k**3 for k in counts.values())
    mean = (n * (n + 1) - squares) / n
    variance = (squares * (squares + n * (n + 1)) - 2 * n * cubes - n**3) / (n**2 * (n - 1))
    runs = 1 + sum(a != b for a, b in itertools.pairwise(found))
    return runs, mean, math.sqrt(max(variance, 0.0))
