"""How long work is shown: a bar with the time left on a terminal, a line a minute in a plain log."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING

from testigo.cli.output import console, say

if TYPE_CHECKING:
    from rich.progress import TaskID

LOG_EVERY_SECONDS = 60.0
_BAR_WIDTH = 8
_TIME_WIDTH = 5


class Terminal(AbstractContextManager["Terminal"]):
    """A reporter on standard error."""

    def __init__(self) -> None:
        self._bar: _Bar | None = None
        self._log: dict[str, _Logged] = {}
        self._began = time.monotonic()
        self._last = ""
        self._ended = threading.Event()

    def __enter__(self) -> Terminal:
        if not sys.stderr.isatty():
            threading.Thread(target=self._each_minute, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._end_bar()

    def say(self, text: str) -> None:
        """A line that stays."""
        self._end_bar()
        self._last = text.strip()
        say(text)

    def progress(self, step: str, done: int, of: int, note: str = "") -> None:
        """How far a step is; `of` is 0 while nobody knows. Its end stays as a line.

        What comes before is a bar, or in a plain log its beginning and a part of the line that comes each minute.
        """
        is_new = step not in self._log
        log = self._log.setdefault(step, _Logged(time.monotonic()))
        if log.is_ended:
            return
        log.done, log.of, log.note, log.is_news = done, of, note, True
        if 0 < of <= done:
            log.is_ended = True
            self.say(f"{step}: {done}/{of}{_after(note)} ({_humane(log.seconds())})")
        elif sys.stderr.isatty():
            self._bar = self._bar or _Bar()
            self._bar.update(step, done, of, note)
        elif is_new and not of:
            self.say(f"{step}: {note or 'begins'}")
        if of:
            log.count(done)

    def ended(self, step: str) -> None:
        """A step that goes on no more leaves the lines and the bars, wherever it stopped; begun again, it is new."""
        log = self._log.get(step)
        if log is not None and not log.is_ended:
            del self._log[step]
        if self._bar is not None:
            self._bar.remove(step)

    def minute(self) -> str:
        """What goes on, in one line: each step that told something since the last one, or what was said last."""
        going = [(step, log) for step, log in list(self._log.items()) if not log.is_ended]
        going = [one for one in going if one[1].is_news] or going[-1:]
        for _, log in going:
            log.is_news = False
        if not going:
            so_far = _humane(time.monotonic() - self._began)
            return f"still going on, {so_far} so far: after {self._last or 'the start'}"
        return "; ".join(f"{step}: {log.words(alone=len(going) == 1)}" for step, log in going)

    def _each_minute(self) -> None:
        while not self._ended.wait(LOG_EVERY_SECONDS):
            say(self.minute())

    def _end_bar(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


class _Bar:
    """A bar for each step that goes on. They vanish when they end, so that only lines stay."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
        from rich.table import Column

        screen = console()
        self._bar = Progress(
            TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True)),
            BarColumn(bar_width=_BAR_WIDTH),
            TextColumn("{task.fields[of_all]}", markup=False, table_column=Column(no_wrap=True)),
            TimeRemainingColumn(compact=True, table_column=Column(no_wrap=True)),
            TextColumn("{task.fields[note]}", style="dim", markup=False, table_column=Column(no_wrap=True)),
            console=screen,
            transient=True,
        )
        self._width = screen.width
        self._tasks: dict[str, TaskID] = {}
        self._bar.start()

    def update(self, step: str, done: int, of: int, note: str) -> None:
        """As many of the note's parts as there is room for: half a number misleads."""
        if step not in self._tasks:
            self._tasks[step] = self._bar.add_task(step, total=of or None, of_all="", note="")
        room = self._width - max(map(len, self._tasks)) - _BAR_WIDTH - len(f" {of}/{of} ") - _TIME_WIDTH - 3
        parts = note.split(", ")
        while parts and len(", ".join(parts)) > room:
            parts.pop()
        of_all = f"{done}/{of}" if of else ""
        self._bar.update(self._tasks[step], completed=done, total=of or None, of_all=of_all, note=", ".join(parts))

    def remove(self, step: str) -> None:
        if step in self._tasks:
            self._bar.remove_task(self._tasks.pop(step))

    def stop(self) -> None:
        self._bar.stop()


@dataclass
class _Logged:
    """A step: when it began, how far it is, and when it was first counted with how much done."""

    began: float
    counted: tuple[float, int] | None = None
    is_ended: bool = False
    is_news: bool = False
    done: int = 0
    of: int = 0
    note: str = ""

    def count(self, done: int) -> None:
        """A resumed run does not begin at 0, and loading the model is no part of its speed."""
        self.counted = self.counted or (time.monotonic(), done)

    def seconds(self) -> float:
        return time.monotonic() - self.began

    def words(self, *, alone: bool) -> str:
        """How far it is, with the time left; its note where no other step shares the line."""
        note = _after(self.note) if alone else ""
        if not self.of:
            return f"{_humane(self.seconds())} so far{note}"
        return f"{self.done}/{self.of}{self._remaining()}{note}"

    def _remaining(self) -> str:
        if self.counted is None or self.done <= self.counted[1]:
            return ""
        since, first = self.counted
        return f", about {_humane((time.monotonic() - since) / (self.done - first) * (self.of - self.done))} left"


def _after(note: str) -> str:
    return f", {note}" if note else ""


def _humane(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
