"""Memory that was predicted for the inputs of a pilot, beside what its counters showed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = "memory.json"
"""In a pilot's folder."""


@dataclass(frozen=True)
class Comparison:
    """One phase of a pilot: predicted for the inputs that it ran, and measured [bytes]."""

    phase: str
    predicted_bytes: int
    measured_bytes: int

    @property
    def ratio(self) -> float:
        """Predicted to measured: below 1 the prediction was too low."""
        return self.predicted_bytes / self.measured_bytes

    def to_json(self) -> dict[str, Any]:
        """Plain values, the ratio to three places."""
        return {
            "phase": self.phase,
            "predicted_bytes": self.predicted_bytes,
            "measured_bytes": self.measured_bytes,
            "ratio": round(self.ratio, 3),
        }


@dataclass(frozen=True)
class Measured:
    """What a pilot says about predictions.

    Attributes
    ----------
    counter
        `allocated`: the tensors of an accelerator. `resident`: a process on a CPU, from before it loaded the base on;
        it also holds what the process has not given back, and is a rough measure.
    context_bytes, slack_share
        Of an accelerator; None on a CPU.
    """

    counter: str
    device: str
    phases: tuple[Comparison, ...]
    context_bytes: int | None = None
    slack_share: float | None = None
    why_not: str = ""
    pilot: str = ""

    @property
    def ratio(self) -> float | None:
        """Predicted to measured where most is measured; None without any."""
        highest = max(self.phases, key=lambda phase: phase.measured_bytes, default=None)
        return None if highest is None else highest.ratio

    def to_json(self) -> dict[str, Any]:
        """As the pilot writes it and its event in the ledger carries it."""
        ratio = self.ratio
        return {
            "counter": self.counter,
            "device": self.device,
            "ratio": None if ratio is None else round(ratio, 3),
            "context_bytes": self.context_bytes,
            "slack_share": None if self.slack_share is None else round(self.slack_share, 4),
            "phases": [phase.to_json() for phase in self.phases],
            "why_not": self.why_not,
        }

    @classmethod
    def from_json(cls, plain: Mapping[str, Any], pilot: str = "") -> Measured:
        """What `to_json` gave."""
        phases = tuple(
            Comparison(one["phase"], one["predicted_bytes"], one["measured_bytes"]) for one in plain["phases"]
        )
        rest = {name: plain[name] for name in ("counter", "device", "context_bytes", "slack_share", "why_not")}
        return cls(phases=phases, pilot=pilot, **rest)

    def in_words(self) -> str:
        """One line for a person."""
        if not self.phases:
            return f"prediction not compared: {self.why_not}"
        told = ", ".join(f"{phase.phase} {phase.ratio:.2f}" for phase in self.phases)
        how = "" if self.counter == "allocated" else " (resident memory of a CPU process: rough)"
        return f"predicted to measured on {self.device}{how}: {told}"


def measured_in(pilots: Path, *, only: str = "*") -> Measured | None:
    """The newest pilot that compared, in the folder of a workspace's pilots; None when none did.

    Parameters
    ----------
    only
        The name of the one pilot that is meant.
    """
    files = sorted(pilots.glob(f"{only}/{FILE}"), key=lambda path: (path.stat().st_mtime_ns, path.parent.name))
    for path in reversed(files):
        found = Measured.from_json(json.loads(path.read_text(encoding="utf-8")), path.parent.name)
        if found.phases or only != "*":
            return found
    return None
