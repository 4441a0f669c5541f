"""How long work is shown: a bar with the time left on a terminal, a line a minute in a plain log."""

from __future__ import annotations

import sys
import time
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Self

from testigo.cli.output import console, say

LOG_EVERY_SECONDS = 60.0


class Terminal(AbstractContextManager["Terminal"]):
    """A reporter on standard error."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._steps: dict[str, Any] = {}
        self._began: dict[str, tuple[float, int]] = {}
        self._told: dict[str, float] = {}

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=20),
                TextColumn("{task.completed}/{task.total}"),
                TimeRemainingColumn(compact=True),
                TextColumn("{task.fields[note]}", style="dim"),
                console=console(),
                transient=True,
            )
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def say(self, text: str) -> None:
        """A line that stays."""
        if self._bar is not None:
            self._bar.console.print(text)
        else:
            say(text)

    def progress(self, step: str, done: int, of: int, note: str = "") -> None:
        """How far a step is."""
        if self._bar is not None:
            if step not in self._steps:
                for other in self._steps.values():
                    self._bar.update(other, visible=False)
                self._steps[step] = self._bar.add_task(step, total=of, note=note)
            self._bar.update(self._steps[step], completed=done, total=of, note=note)
            return
        now = time.monotonic()
        began, first = self._began.setdefault(step, (now, done))
        if done < of and now - self._told.get(step, began) < LOG_EVERY_SECONDS:
            return
        if done == of and self._told.get(step) == float("inf"):
            return
        self._told[step] = now if done < of else float("inf")
        left = (now - began) / max(done - first, 1) * (of - done)
        remaining = f", about {_humane(left)} left" if done > first and done < of else ""
        say(f"{step}: {done}/{of}{remaining}{', ' + note if note else ''}")


def _humane(seconds: float) -> str:
    return (
        f"{seconds:.0f} s"
        if seconds < 90
        else f"{seconds / 60:.0f} min"
        if seconds < 5400
        else f"{seconds / 3600:.1f} h"
    )
