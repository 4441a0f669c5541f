"""A tracker behind a queue with a bound: the training hands a line over and goes on, whatever the tracker does."""

from __future__ import annotations

import math
import queue
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from testigo.watch.trackers.telling import Line, Telling
from testigo.watch.trackers.tracker import Told, TrackedRun, Tracker

MOST_WAITING = 1000
"""Lines that may wait for a tracker; more are dropped, counted and said. A line is about 2 KB."""
GRACE_SECONDS = 30.0
"""How long a run's end waits for a tracker."""
GIVEN_UP = "given up:"
"""How the error of a tracker begins that did not fail but was no longer waited for."""
_TRIES = 3
_LOOK_SECONDS = 0.5

Open = Callable[[TrackedRun], Tracker]


class Relay:
    """One tracker in a thread of its own. Calling it never waits and never raises.

    `abandon` is called once, when the tracker failed or was too late: it ends what the client would hold this process
    up with at its exit.
    """

    def __init__(
        self,
        name: str,
        open_tracker: Open,
        run: TrackedRun,
        before: Sequence[Line],
        *,
        most_waiting: int = MOST_WAITING,
        files: Mapping[str, Path] | None = None,
        abandon: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = name
        self._abandon = abandon
        self._open, self._run, self._most = open_tracker, run, most_waiting
        self._before: Sequence[Line] = before
        self._waiting: queue.SimpleQueue[Line | None] = queue.SimpleQueue()
        self._files, self._png, self._well = dict(files or {}), b"", True
        self._handed, self._heard, self._refused, self._error = len(before), 0, 0, ""
        self._moved = time.monotonic()
        self._thread = threading.Thread(target=self._work, name=f"tracker-{name}", daemon=True)
        self._thread.start()

    def __call__(self, line: Line) -> None:
        """Hand over one line."""
        if self._error or self._waiting.qsize() >= self._most:
            self._refused += 1
        else:
            self._handed += 1
            self._waiting.put(line)

    @property
    def told(self) -> Told:
        """What came of it so far; what waits is lost once the tracker failed."""
        lost = self._handed - self._heard if self._error else 0
        return Told(self._heard, self._refused + lost, self._error)

    def end(self, *, well: bool, png: bytes) -> None:
        """Tell the tracker that the run ends, without waiting for it."""
        self._png, self._well = png, well
        self._waiting.put(None)

    def wait(self, until: float, *, silence_seconds: float = math.inf) -> Told:
        """What came of it; what is not told by then [s, monotonic clock] counts as dropped.

        A tracker that takes no line for `silence_seconds` while lines wait is given up before.
        """
        while self._thread.is_alive() and time.monotonic() < until:
            self._thread.join(min(_LOOK_SECONDS, max(0.0, until - time.monotonic())))
            if self._heard < self._handed and time.monotonic() - self._moved > silence_seconds:
                self._fail(f"{GIVEN_UP} it took nothing for {silence_seconds:g} s")
                return self.told
        if self._thread.is_alive():
            self._fail(f"{GIVEN_UP} it was still busy when the run had ended and its time was over")
        return self.told

    def _work(self) -> None:
        try:
            tracker = self._opened()
            telling = Telling(tracker, self._run)
            for line in self._before:
                telling.line(line)
                self._took()
            self._before = ()
            while (new := self._waiting.get()) is not None:
                telling.line(new)
                self._took()
            telling.findings()
            if self._png:
                tracker.picture(0, "curves", self._png)
            for name, folder in self._files.items():
                tracker.files(name, folder)
            tracker.end(well=self._well)
        except Exception as error:
            first, *_ = str(error).strip().splitlines() or [""]
            self._fail(f"{type(error).__name__}: {first}"[:300])

    def _took(self) -> None:
        self._heard += 1
        self._moved = time.monotonic()

    def _opened(self) -> Tracker:
        """Runs side by side may meet where a database is made: the second try finds it."""
        for tries_left in reversed(range(_TRIES)):
            try:
                return self._open(self._run)
            except Exception:
                if self._error or not tries_left:
                    raise
                time.sleep(1.0)
        raise AssertionError

    def _fail(self, why: str) -> None:
        if self._error:  # what a client says once it was abandoned
            return
        self._error = why
        self._abandon()
        print(f"the tracker {self.name} was left behind: {why}", file=sys.stderr, flush=True)
