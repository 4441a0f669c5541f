"""How long work is shown: a bar with the time left on a terminal, a line a minute in a plain log."""

from __future__ import annotations

import sys
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType

from testigo.cli.output import console, say

LOG_EVERY_SECONDS = 60.0


class Terminal(AbstractContextManager["Terminal"]):
    """A reporter on standard error."""

    def __init__(self) -> None:
        self._bar: _Bar | None = None
        self._log: dict[str, _Logged] = {}

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_bar()

    def say(self, text: str) -> None:
        """A line that stays."""
        self._end_bar()
        say(text)

    def progress(self, step: str, done: int, of: int, note: str = "") -> None:
        """How far a step is. Its end stays as a line; what comes before is a bar, or a line a minute in a plain log."""
        log = self._log.setdefault(step, _Logged(time.monotonic(), done))
        if log.is_ended:
            return
        if done >= of:
            log.is_ended = True
            self.say(f"{step}: {done}/{of}{_after(note)} ({_humane(log.seconds())})")
        elif sys.stderr.isatty():
            if self._bar is None or self._bar.step != step:
                self._end_bar()
                self._bar = _Bar(step, of)
            self._bar.update(done, note)
        elif log.is_due():
            say(f"{step}: {done}/{of}{log.remaining(done, of)}{_after(note)}")

    def _end_bar(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


class _Bar:
    """One step's bar. It vanishes when it ends, so that only lines stay."""

    def __init__(self, step: str, of: int) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
        from rich.table import Column

        self.step = step
        self._bar = Progress(
            TextColumn("{task.description}", table_column=Column(no_wrap=True)),
            BarColumn(bar_width=12),
            TextColumn("{task.completed}/{task.total}", table_column=Column(no_wrap=True)),
            TimeRemainingColumn(compact=True, table_column=Column(no_wrap=True)),
            TextColumn("{task.fields[note]}", style="dim", table_column=Column(no_wrap=True, overflow="ellipsis")),
            console=console(),
            transient=True,
        )
        self._task = self._bar.add_task(step, total=of, note="")
        self._bar.start()

    def update(self, done: int, note: str) -> None:
        self._bar.update(self._task, completed=done, note=note)

    def stop(self) -> None:
        self._bar.stop()


@dataclass
class _Logged:
    """A step in a plain log: when it began and with how much done, and when it was last told."""

    began: float
    first: int
    told: float | None = None
    is_ended: bool = False

    def seconds(self) -> float:
        return time.monotonic() - self.began

    def is_due(self) -> bool:
        now = time.monotonic()
        if now - (self.told or self.began) < LOG_EVERY_SECONDS:
            return False
        self.told = now
        return True

    def remaining(self, done: int, of: int) -> str:
        if done <= self.first:
            return ""
        return f", about {_humane(self.seconds() / (done - self.first) * (of - done))} left"


def _after(note: str) -> str:
    return f", {note}" if note else ""


def _humane(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
