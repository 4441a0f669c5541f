"""What the model writes: the outputs that the rules of this package look at."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_WORD = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class Output:
    """One row's output."""

    row: str
    text: str
    pieces: tuple[int | str, ...]
    """The same as token ids, or as words where ids are not known."""
    at_limit: bool
    """Whether it was cut at the longest length allowed."""
    target: str | None = None
    """What should have been written, where it is known."""
    stop: str | None = None
    """Why it ended: `end`, `length`, or `class` where a head answers and nothing is written."""


@dataclass(frozen=True)
class Outputs:
    """The outputs of one evaluation, or of the fixed prompts at one validation."""

    every: tuple[Output, ...]
    before: Mapping[str, Output] | None = None
    """Outputs of the untouched base for the same rows, where the training alone is to be judged."""

    @classmethod
    def from_lines(cls, lines: Iterable[Mapping[str, Any]], before: Iterable[Mapping[str, Any]] = ()) -> Outputs:
        """Outputs of prediction lines: "row", "output", and where they are known "token_ids", "stop" and "target"."""
        earlier = {line["row"]: _output(line) for line in before}
        return cls(tuple(_output(line) for line in lines), earlier or None)

    @property
    def written(self) -> tuple[Output, ...]:
        """Outputs that a model wrote; a class that a head chose is none."""
        return tuple(output for output in self.every if output.stop != "class")

    def base_of(self, output: Output) -> Output | None:
        """What the base wrote for the same row."""
        return None if self.before is None else self.before.get(output.row)


def _output(line: Mapping[str, Any]) -> Output:
    text, target = str(line["output"]), line.get("target")
    return Output(
        row=str(line["row"]),
        text=text,
        pieces=tuple(line.get("token_ids") or text.split()),
        at_limit=line.get("stop") == "length",
        target=None if target is None else str(target),
        stop=line.get("stop"),
    )


def words(text: str) -> tuple[str, ...]:
    """Words and signs of a text: JSON without spaces has as many as JSON with."""
    return tuple(_WORD.findall(text))


def period(pieces: Sequence[int | str], times: int = 4) -> int:
    """The shortest period with which at least the second half repeats so many times; 0 when there is none."""
    n = len(pieces)
    for length in range(1, n // times + 1):
        same = 0
        while same < n - length and pieces[n - 1 - same] == pieces[n - 1 - same - length]:
            same += 1
        if same + length >= max(times * length, n / 2, 8):
            return length
    return 0
