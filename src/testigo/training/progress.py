"""Where a run stands, as a checkpoint carries it beside weights and moments."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any


@dataclass
class Progress:
    """What a run has done so far, and how its validations went."""

    update: int = 0
    best_loss: float = math.inf
    best_update: int | None = None
    worse_validations: int = 0
    skips_in_a_row: int = 0
    supervised_tokens: int = 0
    examples: int = 0
    seconds: float = 0.0

    def weigh(self, validation_loss: float) -> None:
        """A new best, or one more validation that was none."""
        if validation_loss < self.best_loss:
            self.best_loss, self.best_update, self.worse_validations = validation_loss, self.update, 0
        else:
            self.worse_validations += 1


_WHOLE = ("update", "worse_validations", "skips_in_a_row", "supervised_tokens", "examples")


def fault_in(state: Mapping[str, Any]) -> str | None:
    """What keeps the state of a checkpoint from being that of a run; None when it is one.

    A checksum says that a file is as it was written, not that it was written well.
    """
    progress = state.get("progress")
    if not isinstance(progress, dict) or not isinstance(state.get("scaler"), dict):
        return "state.json has no progress or no scaler"
    known = {field.name for field in fields(Progress)}
    if progress.keys() != known:
        return f"state.json has other fields than {', '.join(sorted(known))}"
    numbers = [*(progress[name] for name in _WHOLE), progress["best_update"] or 0]
    if not all(type(number) is int and number >= 0 for number in numbers):
        return "state.json counts with what is no whole number"
    if not all(isinstance(progress[name], int | float) for name in ("best_loss", "seconds")):
        return "state.json measures with what is no number"
    return None if progress["update"] == state.get("update") else "state.json tells of two updates"
