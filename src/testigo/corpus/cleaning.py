"""The cleaning steps, by the names that a campaign uses."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from testigo.corpus.images import is_image
from testigo.corpus.row import RawRow

_STEPS: dict[str, Callable[[str], str]] = {
    "unicode": lambda text: unicodedata.normalize("NFC", text),
    "strip": str.strip,
    "spaces": lambda text: " ".join(text.split()),
}
DROP_EMPTY = "drop-empty"
CLEANING_STEPS = (*_STEPS, DROP_EMPTY)
"""`unicode`: NFC. `strip`: no white space at both ends. `spaces`: each run of white space, line ends too, becomes one
space. `drop-empty`: a row whose input or target is empty or missing is left out and counted. The first three touch
every text of a row, also inside objects and lists, so that input and target keep the same letters."""


@dataclass
class Cleaned:
    """Rows after the steps, what each step did, and which rows it left out."""

    rows: list[RawRow]
    steps: list[dict[str, Any]] = field(default_factory=list)
    dropped: list[tuple[RawRow, str]] = field(default_factory=list)


def clean(rows: Iterable[RawRow], steps: Iterable[str], needed: tuple[str, ...]) -> Cleaned:
    """Apply the steps in their order. `needed` are the fields that `drop-empty` looks at."""
    cleaned = Cleaned(list(rows))
    for step in steps:
        if step == DROP_EMPTY:
            # A field that no row has is a wrong name in the campaign: it is told, and no row is dropped for it.
            known = tuple(name for name in needed if any(name in row.fields for row in cleaned.rows))
            kept = [row for row in cleaned.rows if not _lacks(row, known)]
            cleaned.dropped += [(row, reason) for row in cleaned.rows if (reason := _lacks(row, known))]
            cleaned.steps.append({"step": step, "changed": 0, "dropped": len(cleaned.rows) - len(kept)})
            cleaned.rows = kept
            continue
        after = [replace(row, fields=_apply(_STEPS[step], row.fields)) for row in cleaned.rows]
        changed = sum(old.fields != new.fields for old, new in zip(cleaned.rows, after, strict=True))
        cleaned.steps.append({"step": step, "changed": changed, "dropped": 0})
        cleaned.rows = after
    return cleaned


def is_empty(value: Any) -> bool:
    """Whether a field says nothing: null, blank text, an empty object or list."""
    return value is None or value in ({}, []) or (isinstance(value, str) and not value.strip())


def _lacks(row: RawRow, needed: tuple[str, ...]) -> str:
    """Why `drop-empty` leaves a row out; "" when it stays."""
    for name in needed:
        if name not in row.fields:
            return f"no field '{name}'"
        if is_empty(row.fields[name]):
            return "empty input or target"
    return ""


def _apply(step: Callable[[str], str], value: Any) -> Any:
    if isinstance(value, str):
        return step(value)
    if is_image(value):
        return value  # a path or bytes: no text
    if isinstance(value, dict):
        return {key: _apply(step, child) for key, child in value.items()}
    if isinstance(value, list):
        return [_apply(step, child) for child in value]
    return value
