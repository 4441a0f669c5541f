"""A run's steps as columns, kept up with the file while the run goes on."""

from __future__ import annotations

import statistics
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from testigo.dossier.files import real, whole
from testigo.page.reading import Growing, json_object, line_at

QUANTITIES = (
    "loss",
    "learning_rate",
    "gradient_norm",
    "seconds",
    "resident_bytes",
    "allocated_bytes",
    "reserved_bytes",
    "supervised_tokens",
    "examples",
)
"""The columns, named as in `steps.jsonl`."""
AXES = {"examples": "examples", "tokens": "supervised_tokens", "time": "seconds"}
"""What a curve may be drawn over beside updates, and the column that it sums."""
_RECENT = 50


@dataclass(frozen=True)
class Validation:
    """One validation: loss in nats per token, None where it was not finite."""

    update: int
    loss: float | None
    seconds: float | None


class Steps:
    """`steps.jsonl` as columns of one length. A number that was not finite, or not measured, is None."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.updates: list[int] = []
        self.columns: dict[str, list[float | None]] = {name: [] for name in QUANTITIES}
        self.validations: list[Validation] = []
        self._places: list[int] = []
        self._file = Growing(path)

    def refresh(self) -> None:
        """Read what was added since the last call."""
        anew, lines = self._file.new()
        if anew:
            self._keep(0)
            self.validations.clear()
        for place, text in lines:
            line = json_object(text)
            update = whole(line.get("update")) if line else None
            if line is None or update is None:
                continue
            if "validation_loss" in line:
                self._validated(update, line)
            else:
                self._stepped(update, line, place)

    def axis(self, name: str) -> Sequence[float]:
        """For each update how far the run was by then: in updates, examples, tokens in the loss, or seconds."""
        if name not in AXES:
            return self.updates
        return list(accumulate(value or 0.0 for value in self.columns[AXES[name]]))

    def place_of(self, update: int) -> int:
        """The position of an update, or of the first one after it."""
        return min(bisect_left(self.updates, update), max(len(self.updates) - 1, 0))

    @property
    def last_update(self) -> int:
        """The number of the last update, 0 before the first."""
        return self.updates[-1] if self.updates else 0

    def last(self, name: str) -> float | None:
        """The last value of a column."""
        return self.columns[name][-1] if self.updates else None

    @property
    def best_validation(self) -> Validation | None:
        """The validation with the lowest loss."""
        finite = [one for one in self.validations if one.loss is not None]
        return min(finite, key=lambda one: (one.loss, one.update)) if finite else None

    @property
    def seconds_per_update(self) -> float | None:
        """The median of the last fifty updates [s]."""
        return median(self.columns["seconds"][-_RECENT:])

    @property
    def seconds_per_validation(self) -> float | None:
        """The median of the last fifty validations [s]."""
        return median([one.seconds for one in self.validations[-_RECENT:]])

    @property
    def seconds(self) -> float:
        """All that was measured, updates and validations [s]."""
        return sum(filter(None, [*self.columns["seconds"], *(one.seconds for one in self.validations)]))

    def line(self, update: int) -> dict[str, Any] | None:
        """The whole line of an update, with its rows, read back from the file."""
        at = bisect_left(self.updates, update)
        if at == len(self.updates) or self.updates[at] != update:
            return None
        return line_at(self.path, self._places[at])

    def _stepped(self, update: int, line: dict[str, Any], place: int) -> None:
        self._keep(bisect_left(self.updates, update))  # a resumed run does its last updates again: the later counts
        self.updates.append(update)
        self._places.append(place)
        for name, column in self.columns.items():
            column.append(real(line.get(name)))

    def _validated(self, update: int, line: dict[str, Any]) -> None:
        while self.validations and self.validations[-1].update >= update:
            self.validations.pop()
        self.validations.append(Validation(update, real(line["validation_loss"]), real(line.get("seconds"))))

    def _keep(self, n: int) -> None:
        if n < len(self.updates):
            for column in (self.updates, self._places, *self.columns.values()):
                del column[n:]  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Pace:
    """The end of a run's steps: medians of the last updates and validations [s], the last update and loss.

    It tells of a long run what a table needs, under the names of `Steps`; `best_validation` is the best of the end.
    """

    seconds_per_update: float | None
    seconds_per_validation: float | None
    last_update: int
    last_loss: float | None
    best_validation: Validation | None

    @property
    def seconds(self) -> float:
        """About what was measured [s]: all updates at the present pace."""
        return (self.seconds_per_update or 0.0) * self.last_update

    def last(self, _name: str) -> float | None:
        """The last loss."""
        return self.last_loss


def pace_of(text: str) -> Pace:
    """The pace of the end of a `steps.jsonl`."""
    lines = [line for part in text.split("\n") if (line := json_object(part.encode()))]
    validations = [line for line in lines if "validation_loss" in line and whole(line.get("update")) is not None]
    updates = [line for line in lines if "loss" in line and whole(line.get("update")) is not None]
    found = [
        Validation(line["update"], real(line["validation_loss"]), real(line.get("seconds"))) for line in validations
    ]
    finite = [one for one in found if one.loss is not None]
    return Pace(
        seconds_per_update=median([real(line.get("seconds")) for line in updates[-_RECENT:]]),
        seconds_per_validation=median([one.seconds for one in found[-_RECENT:]]),
        last_update=updates[-1]["update"] if updates else 0,
        last_loss=real(updates[-1]["loss"]) if updates else None,
        best_validation=min(finite, key=lambda one: (one.loss, one.update)) if finite else None,
    )


def median(values: Sequence[float | None]) -> float | None:
    """Of those that are known; None of nothing."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
