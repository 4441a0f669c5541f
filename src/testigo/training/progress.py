"""Where a run stands, and how it ended."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

_COUNTS = ("update", "worse_validations", "skips_in_a_row", "supervised_tokens", "examples")


@dataclass
class Progress:
    """Where a run stands: what a checkpoint carries beside weights and moments.

    Attributes
    ----------
    owes_validation
        Whether the validation that is due after this update was not finished: it comes first when the run goes on.
    """

    update: int = 0
    best_loss: float = math.inf
    best_update: int | None = None
    worse_validations: int = 0
    skips_in_a_row: int = 0
    supervised_tokens: int = 0
    examples: int = 0
    seconds: float = 0.0
    owes_validation: bool = False

    def weigh(self, validation_loss: float) -> None:
        """A new best, or one more validation that was none."""
        if validation_loss < self.best_loss:
            self.best_loss, self.best_update, self.worse_validations = validation_loss, self.update, 0
        else:
            self.worse_validations += 1

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """As a checkpoint holds it.

        Raises
        ------
        ValueError
            When it cannot be where a run stands; the words say why.
        """
        own = {field.name for field in fields(cls)}
        if (
            not isinstance(values, Mapping)
            or not values.keys() <= own
            or not own - {"owes_validation"} <= values.keys()
        ):
            told = sorted(set(values) ^ own) if isinstance(values, Mapping) else type(values).__name__
            raise ValueError(f"other fields than a run's progress has: {told}")
        if not all(type(values[name]) is int and values[name] >= 0 for name in _COUNTS):
            raise ValueError("a progress that is not made of counts")
        measured = (values["best_loss"], values["seconds"])
        if not all(type(value) in (int, float) and not math.isnan(value) for value in measured):
            raise ValueError("a progress that measures with what is no number")
        best = values["best_update"]
        if best is not None and not (type(best) is int and 0 < best <= values["update"]):
            raise ValueError(f"a best update {best} after {values['update']} updates")
        return cls(**values)


ENDED_WELL = ("completed", "stopped-early")
"""States of a run whose weights are what it was to make."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended, in the ledger's words."""

    state: str
    cause: str


class Stopped(Exception):
    """Somebody asked to stop in the middle of an update or a validation: what was begun is left, nothing has moved."""
