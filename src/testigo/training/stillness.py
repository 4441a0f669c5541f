"""A run that stands still: what a worker that hangs cannot say itself, whoever listens to it says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from testigo.watch.robust import level

#: As for rule M111: many times the usual update, and ten minutes besides, since validations and checkpoints take long.
TIMES, LEAST_SECONDS = 20.0, 600.0


class Stillness:
    """Hears each line of a run, and says once when none has come for too long."""

    def __init__(self, now: float) -> None:
        self._last, self._told = now, False
        self._update = 0
        self._seconds: list[float] = []

    def hear(self, line: Mapping[str, Any], now: float) -> None:
        """A line of `steps.jsonl` has come."""
        self._last, self._told = now, False
        self._update = int(line["update"])
        if "loss" in line:
            self._seconds = [*self._seconds[-99:], float(line["seconds"])]

    def words(self, now: float) -> str | None:
        """What to say now; None most of the time. Before the fifth update nobody knows what is usual."""
        if self._told or len(self._seconds) < 5:
            return None
        usual = level(np.array(self._seconds))
        if now - self._last < max(TIMES * usual, LEAST_SECONDS):
            return None
        self._told = True
        minutes = (now - self._last) / 60
        return f"note M111 stall: nothing since update {self._update}, {minutes:.0f} min ago; {usual:.2g} s are usual"
