"""How long work is shown: a bar with the time left on a terminal, a line a minute in a plain log."""

from __future__ import annotations

import sys
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType

from testigo.cli.output import console, say

LOG_EVERY_SECONDS = 60.0
_BAR_WIDTH = 8
_TIME_WIDTH = 5


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
        """How far a step is; `of` is 0 while nobody knows. Its end stays as a line.

        What comes before is a bar, or a line a minute in a plain log.
        """
        log = self._log.setdefault(step, _Logged(time.monotonic()))
        if log.is_ended:
            return
        if 0 < of <= done:
            log.is_ended = True
            self.say(f"{step}: {done}/{of}{_after(note)} ({_humane(log.seconds())})")
        elif sys.stderr.isatty():
            if self._bar is None or (self._bar.step, self._bar.of) != (step, of):
                self._end_bar()
                self._bar = _Bar(step, of)
            self._bar.update(done, note)
        elif of and log.is_due():
            say(f"{step}: {done}/{of}{log.remaining(done, of)}{_after(note)}")
        if of:
            log.count(done)

    def _end_bar(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


class _Bar:
    """One step's bar. It vanishes when it ends, so that only lines stay."""

    def __init__(self, step: str, of: int) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
        from rich.table import Column

        self.step, self.of = step, of
        of_all = TextColumn("{task.completed}/{task.total}", table_column=Column(no_wrap=True))
        left = TimeRemainingColumn(compact=True, table_column=Column(no_wrap=True))
        screen = console()
        self._bar = Progress(
            TextColumn("{task.description}", table_column=Column(no_wrap=True)),
            BarColumn(bar_width=_BAR_WIDTH),
            *([of_all, left] if of else []),
            TextColumn("{task.fields[note]}", style="dim", table_column=Column(no_wrap=True)),
            console=screen,
            transient=True,
        )
        counts = len(f" {of}/{of} ") + _TIME_WIDTH if of else 0
        self._room = screen.width - len(step) - _BAR_WIDTH - counts - 3
        self._task = self._bar.add_task(step, total=of or None, note="")
        self._bar.start()

    def update(self, done: int, note: str) -> None:
        """As many of the note's parts as there is room for: half a number misleads."""
        parts = note.split(", ")
        while parts and len(", ".join(parts)) > self._room:
            parts.pop()
        self._bar.update(self._task, completed=done, note=", ".join(parts))

    def stop(self) -> None:
        self._bar.stop()


@dataclass
class _Logged:
    """A step: when it began, when it was first counted and with how much done, and when a plain log was last told."""

    began: float
    counted: tuple[float, int] | None = None
    told: float | None = None
    is_ended: bool = False

    def count(self, done: int) -> None:
        """A resumed run does not begin at 0, and loading the model is no part of its speed."""
        self.counted = self.counted or (time.monotonic(), done)

    def seconds(self) -> float:
        return time.monotonic() - self.began

    def is_due(self) -> bool:
        now = time.monotonic()
        if now - (self.told or self.began) < LOG_EVERY_SECONDS:
            return False
        self.told = now
        return True

    def remaining(self, done: int, of: int) -> str:
        if self.counted is None or done <= self.counted[1]:
            return ""
        since, first = self.counted
        return f", about {_humane((time.monotonic() - since) / (done - first) * (of - done))} left"


def _after(note: str) -> str:
    return f", {note}" if note else ""


def _humane(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
