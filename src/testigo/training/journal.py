"""What a run writes while it goes, and how a resume takes back what is not in its checkpoint."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from testigo.disk import append, read_lines, write_atomically
from testigo.rules import Finding


class Journal:
    """Appends lines to `steps.jsonl` and `findings.jsonl` of a run folder; each line is flushed.

    `listeners` are told of each step: the trackers that the user declared.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.listeners: list[Callable[[Mapping[str, Any]], None]] = []
        folder.mkdir(parents=True, exist_ok=True)

    def step(self, line: Mapping[str, Any]) -> None:
        """An update or a validation."""
        self._append("steps.jsonl", line)
        for listener in self.listeners:
            listener(line)

    def finding(self, finding: Finding, update: int) -> None:
        """A diagnosis, pinned to its update."""
        self._append("findings.jsonl", {**asdict(finding), "update": update})

    def steps(self) -> list[dict[str, Any]]:
        """All lines of `steps.jsonl`."""
        return read_lines(self.folder / "steps.jsonl")

    def cut_after(self, update: int, attempt: int) -> list[dict[str, Any]]:
        """Keep what belongs to updates up to this one; the rest goes aside, since it will be done again.

        Returns the lines put aside. They stay in ``steps.attempt-N.jsonl``: nothing that happened is lost.
        """
        put_aside: list[dict[str, Any]] = []
        for name in ("steps", "findings", "samples"):
            path = self.folder / f"{name}.jsonl"
            lines = read_lines(path)
            kept = [line for line in lines if line["update"] <= update]
            rest = [line for line in lines if line["update"] > update]
            if rest:
                append(self.folder / f"{name}.attempt-{attempt}.jsonl", "".join(_line(line) for line in rest))
                put_aside += rest
            if path.exists():  # also drops a last line that a kill cut in two
                write_atomically(path, "".join(_line(line) for line in kept))
        return put_aside

    def _append(self, name: str, line: Mapping[str, Any]) -> None:
        append(self.folder / name, _line(line))


def _line(values: Mapping[str, Any]) -> str:
    return json.dumps({key: _finite(value) for key, value in values.items()}, ensure_ascii=False) + "\n"


def _finite(value: Any) -> Any:
    """JSON has no NaN: it is written as the word, which `float` reads back."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return value
