"""From a run's files to what a tracker is told: numbers always, contents of rows only where they were declared."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from testigo.campaign import Campaign
from testigo.disk import read_lines
from testigo.watch.trackers.tracker import TrackedRun, Tracker

Line = Mapping[str, Any]
UPDATE = {
    "loss": "train/loss",
    "learning_rate": "train/learning_rate",
    "gradient_norm": "train/gradient_norm",
    "supervised_tokens": "train/supervised_tokens",
    "examples": "train/examples",
    "epoch": "train/epoch",
    "seconds": "train/seconds",
    "resident_bytes": "memory/resident_bytes",
    "allocated_bytes": "memory/allocated_bytes",
    "reserved_bytes": "memory/reserved_bytes",
}
"""Key of an update's line -> name at the tracker. Losses are in nats per supervised token."""
VALIDATION = {"validation_loss": "validation/loss", "seconds": "validation/seconds"}
"""Key of a validation's line -> name at the tracker."""
_LEFT_OUT = ("track", "machine", "waive", "rules", "variants", "seeds", "budget")
"""Sections that do not define one run, or that may name machines and accounts."""


def values_of(line: Line) -> dict[str, float]:
    """The numbers of a line of `steps.jsonl`, by their names at the tracker."""
    names = VALIDATION if "validation_loss" in line else UPDATE
    return {name: float(line[key]) for key, name in names.items() if line.get(key) is not None}


def settings_of(campaign: Campaign, *, rows: bool, **about: str | int) -> dict[str, Any]:
    """What defines a run, by dotted key; the system prompt only where row contents are declared."""
    plain = {key: value for key, value in campaign.canonical().items() if key not in _LEFT_OUT}
    if not rows:
        plain["task"] = {key: value for key, value in plain["task"].items() if key != "system"}
    return {**about, **dict(_flat(plain, ""))}


def _flat(value: Any, start: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(inner, f"{start}.{key}" if start else str(key))
    elif isinstance(value, list | tuple):
        yield start, json.dumps(value, ensure_ascii=False)
    elif value is not None:
        yield start, value


class Telling:
    """Tells one tracker of lines in their order, with the findings and outputs that came with them."""

    def __init__(self, tracker: Tracker, run: TrackedRun) -> None:
        self._tracker, self._run, self._n_findings = tracker, run, 0

    def line(self, line: Line) -> None:
        """An update or a validation."""
        self._tracker.values(line["update"], values_of(line))
        if "validation_loss" in line:
            self.findings(line["update"])
            if self._run.shows_rows:
                self._outputs(line["update"])

    def findings(self, up_to: int | None = None) -> None:
        """Those that were not told yet; what was observed may quote rows."""
        known = read_lines(self._run.folder / "findings.jsonl")
        for found in known[self._n_findings :]:
            if up_to is not None and found["update"] > up_to:
                break
            self._n_findings += 1
            words = f"{found['severity']} {found['code']} {found['name']}"
            seen = f": {found['observed']}" if self._run.shows_rows else f" at update {found['update']}"
            self._tracker.text(found["update"], f"findings/{found['code']}", words + seen)

    def _outputs(self, update: int) -> None:
        lines = [own for own in read_lines(self._run.folder / "samples.jsonl") if own["update"] == update]
        if lines:
            rows = [[own["row"], str(own.get("output", "")), str(own.get("target", ""))] for own in lines]
            self._tracker.table(update, "outputs", ("row", "output", "target"), rows)
