"""The curve of a run: what each update and each validation showed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from testigo.watch.robust import Numbers, noise, slope_fall

#: What stands where a gradient norm was not measured; a measured one may be NaN and is never negative.
UNMEASURED = -1.0

#: The columns of a curve, in the order in which `row_of` gives them.
COLUMNS = (
    "update",
    "loss",
    "learning_rate",
    "gradient_norm",
    "skipped",
    "tokens",
    "supervised_tokens",
    "seconds",
    "resident_bytes",
    "allocated_bytes",
    "epoch",
)


@dataclass(frozen=True)
class Curve:
    """Training and validation of one run, as arrays with one element an update.

    A value that was not measured is NaN, but in `gradient_norms`, where NaN is a measurement: there it is -1.
    """

    updates: Numbers
    """Number of each update, from 1 on, increasing; a long run that is watched live is thinned out in the past."""
    losses: Numbers
    """Training loss, nats per supervised token."""
    learning_rates: Numbers
    """Learning rate that each update used."""
    gradient_norms: Numbers
    """Norm of the gradient before clipping; -1 where it was not measured."""
    skipped: npt.NDArray[np.bool_]
    """Whether the fp16 scaler skipped the update after an overflow."""
    tokens: Numbers
    """Tokens that the update read."""
    supervised_tokens: Numbers
    """Tokens in the loss of the update."""
    seconds: Numbers
    """Seconds that the update took."""
    resident_bytes: Numbers
    """Bytes of the process in main memory."""
    allocated_bytes: Numbers
    """Bytes allocated on the device."""
    epochs: Numbers
    """Passes over the training rows so far."""
    rows: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """Ids of the rows of an update, by its number."""
    row_losses: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    """Loss of each row of an update, nats per supervised token, by its number."""
    validation: tuple[tuple[int, float, int], ...] = ()
    """Each validation: update, loss in nats per supervised token, supervised tokens."""
    planned_learning_rates: Sequence[float] | Numbers | None = None
    """Learning rate of each update by the schedule; as long as the run is planned."""
    planned_updates: int | None = None
    """How many updates the run is planned to have; by default as many as there are planned learning rates."""
    vocabulary_size: int | None = None
    """Number of classes that the logits choose from."""
    base_loss: float | None = None
    """Loss of the untouched base on the same kind of rows, nats per supervised token."""
    since: int = 0
    """Rules that look for an event look at updates after this one."""

    @classmethod
    def from_steps(cls, steps: Iterable[Mapping[str, Any]], **about: Any) -> Curve:
        """A curve of the lines of `steps.jsonl`: updates and validations in any mixture.

        Parameters
        ----------
        steps
            Lines with "update" and either "loss" or "validation_loss".
        about
            `planned_learning_rates`, `vocabulary_size`, `base_loss`, where they are known.
        """
        table: list[tuple[float, ...]] = []
        rows: dict[int, tuple[str, ...]] = {}
        row_losses: dict[int, Mapping[str, float]] = {}
        validation: list[tuple[int, float, int]] = []
        for step in steps:
            if "validation_loss" in step:
                validation.append(validation_of(step))
                continue
            table.append(row_of(step))
            update = int(step["update"])
            if step.get("rows"):
                rows[update] = tuple(step["rows"])
            if step.get("row_losses"):
                row_losses[update] = step["row_losses"]
        array = np.array(table, dtype=np.float64).reshape(-1, len(COLUMNS))
        return cls.from_table(array, rows=rows, row_losses=row_losses, validation=tuple(validation), **about)

    @classmethod
    def from_table(cls, table: Numbers, **about: Any) -> Curve:
        """A curve of an array with one row an update and the columns `COLUMNS`."""
        # Each column as its own piece of memory: all rules read columns.
        update, loss, rate, norm, skipped, *others = np.ascontiguousarray(table.T)
        return cls(update, loss, rate, norm, skipped > 0, *others, **about)

    # What several rules ask for is computed once for a curve; nobody writes into its arrays.

    @cached_property
    def taken(self) -> npt.NDArray[np.bool_]:
        """Which updates were taken and have a finite loss: those that level and noise are measured on."""
        return np.isfinite(self.losses) & ~self.skipped

    @cached_property
    def taken_losses(self) -> Numbers:
        """The losses of the updates that were taken, finite ones alone."""
        return self.losses[self.taken]

    @cached_property
    def loss_noise(self) -> float:
        """Standard deviation of the noise of single losses around their level."""
        return noise(self.taken_losses)

    @cached_property
    def loss_fall(self) -> tuple[float, float]:
        """How far the losses fall over the whole curve by a straight line, and its standard error."""
        return slope_fall(self.taken_losses, self.loss_noise)

    @property
    def n_planned(self) -> int | None:
        """How many updates the run is planned to have; None where nobody knows."""
        if self.planned_updates is not None or self.planned_learning_rates is None:
            return self.planned_updates
        return len(self.planned_learning_rates)

    @cached_property
    def measured_norms(self) -> Numbers:
        """The gradient norms that were measured in updates that were taken, finite ones alone."""
        norms = self.gradient_norms
        return norms[np.isfinite(norms) & (norms >= 0) & ~self.skipped]

    @property
    def updates_per_epoch(self) -> float | None:
        """How many updates go once over the rows; None where the epoch is not known."""
        known = np.isfinite(self.epochs) & (self.epochs > 0)
        if int(known.sum()) < 2:
            return None
        updates, epochs = self.updates[known], self.epochs[known]
        passed = float(epochs[-1] - epochs[0])
        return float(updates[-1] - updates[0]) / passed if passed > 0 else None

    def __len__(self) -> int:
        return len(self.updates)


def row_of(step: Mapping[str, Any]) -> tuple[float, ...]:
    """One update's line as numbers, in the order of `COLUMNS`."""
    get = step.get
    norm = get("gradient_norm")
    return (
        float(step["update"]),
        _number(get("loss")),
        _number(get("learning_rate")),
        UNMEASURED if norm is None else float(norm),
        1.0 if get("skipped") else 0.0,
        _number(get("tokens")),
        _number(get("supervised_tokens")),
        _number(get("seconds")),
        _number(get("resident_bytes")),
        _number(get("allocated_bytes")),
        _number(get("epoch")),
    )


def validation_of(step: Mapping[str, Any]) -> tuple[int, float, int]:
    """One validation's line as update, loss and tokens."""
    return int(step["update"]), _number(step["validation_loss"]), int(step.get("validation_tokens") or 0)


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)
