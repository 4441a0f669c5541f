"""Reading what other rooms wrote, tolerant of what an interrupted campaign left half-written."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


def read_json(path: Path) -> dict[str, Any] | None:
    """The JSON object in a file; None when it is missing, half-written or not an object."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The JSON objects of a JSONL file. A line torn by a crash is left out; a missing file has no lines."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return []
    rows: list[dict[str, Any]] = []
    for line in text.split("\n"):
        try:
            value = json.loads(line) if line.strip() else None
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            rows.append(value)
    return rows


def n_lines(path: Path) -> int:
    """How many whole lines a JSONL file has, without reading them as JSON; one torn by a crash does not count."""
    with path.open("rb") as file:
        return sum(line.endswith(b"\n") and not line.isspace() for line in file)


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's bytes, read in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def whole(value: object) -> int | None:
    """A count, or None for anything that is not one."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return int(value)


def real(value: object) -> float | None:
    """A finite number, or None: JSON has no NaN, and the report must say 'not finite' rather than print one."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def finite(value: Any) -> Any:
    """The same JSON tree with every non-finite number replaced by None."""
    if isinstance(value, Mapping):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def words(value: object) -> str:
    """A value of a campaign or manifest as short text."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {words(item)}".strip() for key, item in value.items())
    if isinstance(value, Iterable):
        return ", ".join(words(item) for item in value)
    return str(value)
