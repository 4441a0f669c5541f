"""Rows as they were read and cleaned, for a reader: as JSON, with very long texts and the bytes of images cut short."""

from __future__ import annotations

import json
from typing import Any

from testigo.corpus import Row
from testigo.corpus.images import is_image
from testigo.inspection.letters import shown_lines

_SIGNS_OF_A_TEXT = 2_000
_SIGNS_OF_ALL = 6_000
_SIGNS_OF_BYTES = 40


def raw_text(row: Row) -> str:
    """The fields of a row as indented JSON, with a picture for signs that cannot be seen."""
    text = shown_lines(json.dumps(_short(row.fields), ensure_ascii=False, indent=1))
    left = len(text) - _SIGNS_OF_ALL
    return text if left <= 0 else f"{text[:_SIGNS_OF_ALL]}\n… {left:,} more characters"


def _short(value: Any) -> Any:
    if is_image(value) and "bytes" in value:
        return {**value, "bytes": _cut(value["bytes"], _SIGNS_OF_BYTES)}
    if isinstance(value, dict):
        return {name: _short(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_short(inner) for inner in value]
    return _cut(value, _SIGNS_OF_A_TEXT) if isinstance(value, str) else value


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]} … {len(text) - most:,} more characters"
