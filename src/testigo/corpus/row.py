"""A row, and the digests that say whether two things are the same."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Part = Literal["source", "train", "validation", "test"]
"""Where a row stands: `source` until it is split, or the split whose file the user gave."""


@dataclass(frozen=True)
class Row:
    """One row after cleaning. `group` is the id when the campaign names no group, `category` is "" when none."""

    id: str
    group: str
    category: str
    fields: dict[str, Any]
    digest: str


@dataclass(frozen=True)
class RawRow:
    """One row as it was read, and where: `where` is `file:line`, or `file row n` where files have no lines.

    `root` is the folder in which the paths of its images start; None when it can name none.
    """

    fields: dict[str, Any]
    where: str
    part: Part
    root: Path | None = None


@dataclass(frozen=True)
class PlacedRow:
    """A checked row, where it was read and which part it belongs to."""

    row: Row
    where: str
    part: Part
    root: Path | None = None


def canonical_json(value: Any) -> str:
    """One text for one value: sorted keys, no spaces, letters as they are, floats as Python's shortest form."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest_of(value: Any) -> str:
    """SHA-256, in hex, of the canonical JSON of a value."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()
