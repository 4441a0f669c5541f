"""Exact copies and conflicts: rows that say the same, and rows that ask the same and answer otherwise."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from testigo.corpus.row import Part, PlacedRow, canonical_json

_SIGN = re.compile(r"(?:[^\w\s]|_)(?=(\d)?)")
_ASCII_SIGN = re.compile(r"[!\"#%&'()*,\-./:;?@\[\\\]_{}](?=(\d)?)")  # the same among ASCII, six times as fast
_KEPT_BEFORE_DIGITS = frozenset("-.,:/")
_FIRST: tuple[Part, ...] = ("test", "validation", "train", "source")


@dataclass(frozen=True)
class Copies:
    """Pairs of row places: (kept, copy) with the same input and target, (one, other) with the same input only."""

    exact: tuple[tuple[int, int], ...]
    conflicts: tuple[tuple[int, int], ...]


def normalised(text: str) -> str:
    """A text without what a copy may change: NFKC, small letters, no punctuation, single spaces.

    Signs that belong to a number stay (`-5`, `2.5`, `10:30`): without them a copy would hide another answer. A text of
    punctuation alone keeps it.
    """
    if text.isascii():
        folded = text.lower()
        return " ".join(_ASCII_SIGN.sub(_space_for_punctuation, folded).split()) or folded.strip()
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return " ".join(_SIGN.sub(_space_for_punctuation, folded).split()) or folded.strip()


def find_copies(rows: Sequence[PlacedRow], input_field: str, target_field: str) -> Copies:
    """Search all rows of all parts. Kept is the one of the test file, else of validation, else the lowest id."""
    by_input: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for place in sorted(range(len(rows)), key=lambda p: (_FIRST.index(rows[p].part), rows[p].row.id)):
        fields = rows[place].row.fields
        by_input[_key(fields[input_field])][_key(fields[target_field])].append(place)
    exact: list[tuple[int, int]] = []
    conflicts: list[tuple[int, int]] = []
    for by_target in by_input.values():
        firsts = [places[0] for places in by_target.values()]
        exact += [(places[0], copy) for places in by_target.values() for copy in places[1:]]
        conflicts += [(firsts[0], other) for other in firsts[1:]]
    return Copies(tuple(exact), tuple(conflicts))


def _key(value: Any) -> str:
    return canonical_json(_normalised_value(value))


def _normalised_value(value: Any) -> Any:
    if isinstance(value, str):
        return normalised(value)
    if isinstance(value, dict):
        return {key: _normalised_value(child) for key, child in value.items()}
    if isinstance(value, list):
        return [_normalised_value(child) for child in value]
    return value


def _space_for_punctuation(match: re.Match[str]) -> str:
    sign = match.group()
    if not unicodedata.category(sign).startswith("P") or (match.group(1) and sign in _KEPT_BEFORE_DIGITS):
        return sign
    return " "
