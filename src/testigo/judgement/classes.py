"""What became of each class: precision, recall, F1, confusion, calibration, and how unequal the classes are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from testigo.judgement.lines import Line, answer_of

BINS: Final = 15
"""Bins of equal width for the calibration error, as in Guo et al. 2017."""


@dataclass(frozen=True)
class OneClass:
    """One class: rows that are of it, rows that were given it, and how well both agree.

    Precision of a class that was never given, and recall of one that no row has, are None: there is nothing to divide.
    """

    rows: int
    given: int
    right: int
    precision: float | None
    recall: float | None
    f1: float


@dataclass(frozen=True)
class Bin:
    """Rows whose highest probability lies in one bin: their number, mean probability, and share that is right."""

    low: float
    high: float
    rows: int
    confidence: float
    accuracy: float


@dataclass(frozen=True)
class Side:
    """One model's answers.

    Attributes
    ----------
    per_class
        By class name, in the order of the classes.
    macro, micro
        Precision, recall and F1. Macro: the mean over the classes that these rows hold. Micro: over all rows.
    confusion
        Row: the class that it is; column: the class that was given. (C, C)
    no_class
        For each class, its rows whose output is no class at all.
    ece
        Expected calibration error, None where the model gives no probabilities.
    calibration
        The bins behind it that hold rows.
    """

    accuracy: float
    per_class: dict[str, OneClass]
    macro: dict[str, float]
    micro: dict[str, float]
    confusion: tuple[tuple[int, ...], ...]
    no_class: tuple[int, ...]
    ece: float | None
    calibration: tuple[Bin, ...]


@dataclass(frozen=True)
class Classes:
    """The classes of a comparison, before and after.

    Attributes
    ----------
    names
        Every class that is a target or was given with a probability, sorted.
    rows
        Evaluated rows of each class.
    majority
        The most frequent class, and the accuracy of always answering it.
    imbalance
        Rows of the most frequent class divided by those of the rarest that has rows.
    """

    names: tuple[str, ...]
    rows: dict[str, int]
    majority: tuple[str, float]
    imbalance: float
    baseline: Side
    control: Side

    def to_json(self) -> dict[str, Any]:
        """All fields as a JSON object."""
        name, share = self.majority
        return {**asdict(self), "majority": {"class": name, "share": share}}


def classes_of(before: Sequence[Line], after: Sequence[Line]) -> Classes:
    """The classes of paired prediction lines; each line has `target` and `output`, and may have `probabilities`.

    With probabilities the classes are those of the head, otherwise those of the targets: an output that is none of
    them is no class.
    """
    targets = [str(line["target"]) for line in before]
    known = {str(name) for line in (*before, *after) for name in line.get("probabilities") or ()}
    names = tuple(sorted(known | set(targets)))
    counted = Counter(targets)
    majority, most = counted.most_common(1)[0]
    return Classes(
        names=names,
        rows={name: counted[name] for name in names},
        majority=(majority, most / len(targets)),
        imbalance=most / min(counted.values()),
        baseline=side_of(before, names),
        control=side_of(after, names),
    )


def side_of(lines: Sequence[Line], names: Sequence[str]) -> Side:
    """One model's answers, class by class.

    Source: precision, recall and F1 by class, van Rijsbergen 1979, Information Retrieval; macro and micro, Sokolova
    and Lapalme 2009, Information Processing and Management 45:427-437.
    """
    number = {name: k for k, name in enumerate(names)}
    matrix = np.zeros((len(names), len(names) + 1), dtype=np.int64)  # the last column: no class
    for line in lines:
        matrix[number[str(line["target"])], number.get(answer_of(line), len(names))] += 1
    true, given, right = matrix.sum(axis=1), matrix[:, :-1].sum(axis=0), np.diagonal(matrix)
    per_class = {name: _one(int(true[k]), int(given[k]), int(right[k])) for k, name in enumerate(names)}
    held = [one for one in per_class.values() if one.rows]
    n, n_given, n_right = int(true.sum()), int(given.sum()), int(right.sum())
    ece, bins = calibration(lines)
    return Side(
        accuracy=n_right / n,
        per_class=per_class,
        macro={
            "precision": float(np.mean([one.precision or 0.0 for one in held])),
            "recall": float(np.mean([one.recall or 0.0 for one in held])),
            "f1": float(np.mean([one.f1 for one in held])),
        },
        micro={
            "precision": n_right / n_given if n_given else 0.0,
            "recall": n_right / n,
            "f1": 2 * n_right / (n + n_given),
        },
        confusion=tuple(tuple(int(count) for count in row) for row in matrix[:, :-1]),
        no_class=tuple(int(count) for count in matrix[:, -1]),
        ece=ece,
        calibration=bins,
    )


def calibration(lines: Sequence[Line], n_bins: int = BINS) -> tuple[float | None, tuple[Bin, ...]]:
    """How far the highest probability of a row is from the share of rows that are right, and the bins behind it.

    ECE = Σ over bins, rows in the bin / rows · |share right − mean highest probability|; bins of equal width, closed
    on the right. None where a line has no probabilities.

    Source: Guo et al. 2017 (arXiv 1706.04599), section 2; 15 bins as in its experiments.
    """
    if not lines or not all(isinstance(line.get("probabilities"), Mapping) and line["probabilities"] for line in lines):
        return None, ()
    highest = np.asarray([max(line["probabilities"].values()) for line in lines], dtype=np.float64)
    right = np.asarray([answer_of(line) == line["target"] for line in lines], dtype=np.float64)
    place = np.clip(np.ceil(highest * n_bins).astype(np.int64) - 1, 0, n_bins - 1)
    bins = tuple(
        Bin(
            low=k / n_bins,
            high=(k + 1) / n_bins,
            rows=int((place == k).sum()),
            confidence=float(highest[place == k].mean()),
            accuracy=float(right[place == k].mean()),
        )
        for k in sorted(set(place.tolist()))
    )
    return sum(one.rows / len(lines) * abs(one.accuracy - one.confidence) for one in bins), bins


def _one(rows: int, given: int, right: int) -> OneClass:
    return OneClass(
        rows=rows,
        given=given,
        right=right,
        precision=right / given if given else None,
        recall=right / rows if rows else None,
        f1=2 * right / (rows + given) if rows + given else 0.0,
    )
