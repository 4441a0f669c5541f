"""Start a worker and listen: each line that it writes becomes progress for whoever shows it."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar

from testigo.room import Heard
from testigo.training import launchers
from testigo.training.launchers import HERE, Placement, local
from testigo.training.launchers.placement import OnStart
from testigo.training.stillness import Stillness

T = TypeVar("T")


class Reporter(Protocol):
    """Who listens: the terminal, a page, a test."""

    def say(self, text: str) -> None:
        """A step began or ended, or something was found."""

    def progress(self, step: str, done: int, of: int, note: str = "") -> None:
        """A step goes on; `of` is 0 while nobody knows how long it is."""

    def ended(self, step: str) -> None:
        """A step goes on no more, also where it did not come to its last unit: it was stopped, diverged, or died."""


Work = Generator[None, None, T]
"""Something that goes on in another process: each step is a short look at it, its value is what came of it."""


def to_end(work: Work[T]) -> T:
    """Wait for one piece of work."""
    while True:
        try:
            next(work)
        except StopIteration as ended:
            value: T = ended.value
            return value


def side_by_side(jobs: Sequence[Callable[[int], Work[None]]], *, at_once: int) -> None:
    """Wait for many, some of them at once; the next begins where one has ended.

    When one raises, the others are ended as by a signal: they save, and a later start goes on with them.

    Parameters
    ----------
    jobs
        Each is begun with the number of the place that it gets, from 0: the device that is free.
    """
    waiting = deque(jobs)
    going: dict[int, Work[None]] = {}
    try:
        while waiting or going:
            for place in sorted(set(range(at_once)) - going.keys())[: len(waiting)]:
                going[place] = waiting.popleft()(place)
            for place, work in list(going.items()):
                try:
                    next(work)
                except StopIteration:
                    del going[place]
    finally:
        for work in going.values():
            work.close()


def train(
    spec: Path,
    *,
    n_updates: int,
    reporter: Reporter,
    on_start: OnStart,
    placement: Placement = HERE,
) -> Work[dict[str, Any]]:
    """Run the training worker of a spec to its end; its result."""
    folder = spec.parent
    (folder / "result.json").unlink(missing_ok=True)
    listen = _listener(folder, n_updates, reporter)
    reporter.progress(f"train {folder.name}", 0, 0, "the model is loaded")
    command = ["testigo.training.worker", str(spec)]
    if placement.processes > 1:
        command = ["testigo.training.launchers.torchrun", str(placement.processes), str(spec)]
    waits = Heard(folder, reporter.say)
    try:
        worker = launchers.start(placement, *command, log=folder / "log.txt", on_start=on_start)
        yield from _heard(worker, listen, waits)
    except local.WorkerDied:
        if _told(folder).get("state", "interrupted") == "interrupted":
            raise  # else one of several processes has told how the run ended
    finally:
        reporter.ended(f"train {folder.name}")
    return _told(folder)


def _heard(worker: Work[None], listen: Callable[[], None], waits: Heard) -> Work[None]:
    try:
        for _ in worker:
            listen()
            waits.look()
            yield
    finally:
        worker.close()
        listen()  # its last words, between the last look and its end


def _told(folder: Path) -> dict[str, Any]:
    path = folder / "result.json"
    result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return result


def _listener(folder: Path, n_updates: int, reporter: Reporter) -> Callable[[], None]:
    steps, findings = Tail(folder / "steps.jsonl"), Tail(folder / "findings.jsonl")
    validation = ""
    stillness = Stillness(time.monotonic())

    def listen() -> None:
        nonlocal validation
        for line in steps.new():
            stillness.hear(line, time.monotonic())
            if "validation_loss" in line:
                validation = f", validation {float(line['validation_loss']):.3f}"
            else:
                speed = f", {line['seconds']:.1f} s an update" if line["update"] < n_updates else ""
                note = f"loss {float(line['loss']):.3f}{validation}{speed}"
                reporter.progress(f"train {folder.name}", line["update"], n_updates, note)
        if (words := stillness.words(time.monotonic())) is not None:
            reporter.say(f"  {words}")
        for found in findings.new():
            reporter.say(f"  {found['severity']} {found['code']} {found['name']}: {found['observed']}")

    return listen


def follow(
    module: str,
    spec: Path,
    *,
    progress: Path,
    step: str,
    reporter: Reporter,
    placement: Placement = HERE,
    log: Path | None = None,
) -> Work[None]:
    """Run another worker to its end; `progress` is the small file in which it tells how far it is.

    What it prints goes to `log`, or else to a file log.txt beside its spec.
    """
    progress.unlink(missing_ok=True)  # what an earlier worker told
    steps = [step]

    def listen() -> None:
        with suppress(OSError, ValueError, KeyError):
            told = json.loads(progress.read_text(encoding="utf-8"))
            if not isinstance(told["of"], int):
                reporter.progress(step, len(told["phases"]), len(told["of"]), told["now"])
                return
            own = f"{step}, {told['part']}" if told.get("part") else step
            if own not in steps:
                steps.append(own)
            reporter.progress(own, told["done"], told["of"])

    reporter.progress(step, 0, 0, "the model is loaded")
    waits = Heard(spec.parent, reporter.say)
    try:
        worker = launchers.start(placement, module, str(spec), log=log or spec.with_name("log.txt"), on_start=_unheard)
        yield from _heard(worker, listen, waits)
    finally:
        for own in steps:
            reporter.ended(own)


def _unheard(pid: int, host: str | None) -> None:
    """Only runs are recorded when they start."""


class Tail:
    """The whole lines that were added to a JSON Lines file since the last look; what was read is not read again.

    A file that became shorter, because a resume cut it, is read from its new end on. Where it also grew between two
    looks, the line in the middle of which the old place lies is passed over: this feeds a progress bar, no record.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._place = self._size()

    def new(self) -> Iterator[dict[str, Any]]:
        """Each once."""
        self._place = min(self._place, self._size())
        with suppress(FileNotFoundError), self.path.open("rb") as file:
            file.seek(self._place)
            *whole, _ = file.read().split(b"\n")
            self._place += sum(len(line) + 1 for line in whole)
            for line in whole:
                with suppress(ValueError):
                    yield json.loads(line)

    def _size(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0
