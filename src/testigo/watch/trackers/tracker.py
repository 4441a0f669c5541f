"""What a tracker is asked to do, and what it is told of a run."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from testigo.disk import read_lines, write_json

STATE = "trackers.json"
"""In the run's folder: the name and id that the run has at every tracker, through all its attempts."""


class Tracker(Protocol):
    """One run at one tracker. All is called from one thread, which may wait and may fail: the training does not.

    What was told before an interruption is told again: a tracker keeps each update once.
    """

    def values(self, update: int, values: Mapping[str, float]) -> None:
        """Numbers of an update or of a validation; in one of them all names are the same each time."""

    def text(self, update: int, name: str, text: str) -> None:
        """Words about an update, such as a finding."""

    def table(self, update: int, name: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Rows of text: the outputs to the fixed prompts."""

    def picture(self, update: int, name: str, png: bytes) -> None:
        """A picture of the whole run."""

    def files(self, name: str, folder: Path) -> None:
        """Files that came of the run, such as the adapter."""

    def end(self, *, well: bool) -> None:
        """The last call: what is written is made safe."""


@dataclass(frozen=True)
class TrackedRun:
    """What a tracker may know of a run: no row, no path outside, no secret.

    Attributes
    ----------
    id
        Of this run in this workspace, random: the same through all its attempts.
    name
        Variant, seed and the first letters of `id`: what the tracker shows.
    home
        The campaign file's folder.
    settings
        What defines the run, by dotted key.
    options
        The tracker's own, from the campaign file.
    """

    id: str
    name: str
    campaign: str
    folder: Path
    home: Path
    settings: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def shows_rows(self) -> bool:
        """Whether the user declared that contents of rows are sent too."""
        return bool(self.options.get("rows"))


@dataclass(frozen=True)
class Told:
    """What came of telling one tracker.

    Attributes
    ----------
    lines
        Updates and validations that were told.
    dropped
        Those that were not: the tracker was too slow, or had failed.
    error
        Why it failed; empty when it did not.
    """

    lines: int = 0
    dropped: int = 0
    error: str = ""


def id_of(folder: Path) -> str:
    """The run's id at its trackers, made once and kept in the run's folder before a tracker hears of it."""
    path = folder / STATE
    if path.exists():
        known = json.loads(path.read_text(encoding="utf-8"))
        return str(known["id"])
    made = secrets.token_hex(6)
    write_json(path, {"id": made, "told": {}})
    return made


def write_told(folder: Path, told: Mapping[str, Told]) -> None:
    """Keep what came of it, beside what is known of trackers that were told at another time."""
    path = folder / STATE
    known = json.loads(path.read_text(encoding="utf-8"))
    known["told"] |= {name: asdict(own) for name, own in told.items()}
    write_json(path, known)


def lines_of(folder: Path) -> list[dict[str, Any]]:
    """All updates and validations that the run's journal holds."""
    return read_lines(folder / "steps.jsonl")
