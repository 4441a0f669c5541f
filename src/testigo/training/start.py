"""Start a worker and listen: each line that it writes becomes progress for whoever shows it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from testigo.disk import read_lines
from testigo.training.launchers import local


class Reporter(Protocol):
    """Who listens: the terminal, a page, a test."""

    def say(self, text: str) -> None:
        """A step began or ended, or something was found."""

    def progress(self, step: str, done: int, of: int, note: str = "") -> None:
        """A step goes on."""


def train(spec: Path, *, n_updates: int, reporter: Reporter, on_start: Callable[[int], object]) -> dict[str, Any]:
    """Run the training worker of a spec to its end; its result."""
    folder = spec.parent
    (folder / "result.json").unlink(missing_ok=True)
    steps, findings = Tail(folder / "steps.jsonl"), Tail(folder / "findings.jsonl")
    validation = ""
    for _ in local.start("testigo.training.worker", str(spec), log=folder / "log.txt", on_start=on_start):
        for line in steps.new():
            if "validation_loss" in line:
                validation = f", validation {float(line['validation_loss']):.3f}"
            else:
                note = f"loss {float(line['loss']):.3f}{validation}, {line['seconds']:.1f} s an update"
                reporter.progress(f"train {folder.name}", line["update"], n_updates, note)
        for found in findings.new():
            reporter.say(f"{found['severity']} {found['code']} {found['name']}: {found['observed']}")
    result: dict[str, Any] = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    return result


def follow(module: str, spec: Path, *, progress: Path, step: str, reporter: Reporter) -> None:
    """Run another worker to its end; `progress` is the small file in which it tells how far it is."""
    for _ in local.start(module, str(spec), log=spec.with_name("log.txt")):
        with suppress(OSError, ValueError, KeyError):
            told = json.loads(progress.read_text(encoding="utf-8"))
            if "of" in told and isinstance(told["of"], int):
                reporter.progress(step, told["done"], told["of"])
            elif told["now"]:
                reporter.progress(step, len(told["phases"]), len(told["of"]), told["now"])


class Tail:
    """The whole lines that were added to a JSON Lines file since the last look."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen = len(read_lines(path))

    def new(self) -> Iterator[dict[str, Any]]:
        """Each once. A file that became shorter (a resume cut it) is read from its new end on."""
        lines = read_lines(self.path)
        self._seen = min(self._seen, len(lines))
        yield from lines[self._seen :]
        self._seen = len(lines)
