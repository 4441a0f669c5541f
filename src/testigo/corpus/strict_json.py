"""Strict JSON: what counts as valid in a row, in a target and in a model's output."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from typing import Any, NoReturn

MAXIMUM_DEPTH = 64
"""Objects and lists inside each other, at most. Deeper text is not valid here: a limit of ours that keeps every later
step (comparison, schema) far from the interpreter's own limit; real targets have fewer than ten levels."""

_STRINGS_AND_BRACKETS = re.compile(r'"(?:[^"\\]++|\\.|\\\Z)*+"?|[\[{]|[\]}]', re.DOTALL)


class StrictJsonError(ValueError):
    """A text is not one strict JSON value; the argument says why."""


def parse_strict(text: str) -> Any:
    """The one JSON value that the whole text is, white space at both ends aside.

    Not allowed: text before or after the value, code fences, a key twice in one object, `NaN`, `Infinity`, numbers
    that a double cannot hold, more than `MAXIMUM_DEPTH` levels. Source: RFC 8259; it leaves double keys and huge
    numbers to the reader, and a reader who wants one meaning refuses them (RFC 7493, I-JSON).

    Raises
    ------
    StrictJsonError
        For anything else, however long or deep.
    """
    if _depth(text) > MAXIMUM_DEPTH:
        raise StrictJsonError(f"more than {MAXIMUM_DEPTH} levels")
    try:
        return json.loads(
            text.strip(" \t\r\n"),
            object_pairs_hook=_object,
            parse_constant=_constant,
            parse_float=_float,
            parse_int=_int,
        )
    except StrictJsonError:
        raise
    except json.JSONDecodeError as error:
        raise StrictJsonError(f"{error.msg} at character {error.pos + 1}") from None


def _depth(text: str) -> int:
    depth = deepest = 0
    for match in _STRINGS_AND_BRACKETS.finditer(text):
        sign = match.group()
        if sign in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif sign in "]}":
            depth -= 1
    return deepest


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise StrictJsonError(f"the key {twice[:80]!r} stands twice in one object")
    return content


def _constant(word: str) -> NoReturn:
    raise StrictJsonError(f"{word} is not JSON")


def _float(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise StrictJsonError(f"the number {digits[:40]} is out of range")
    return value


def _int(digits: str) -> int:
    if len(digits) > 300:  # the largest double has 309 digits; longer integers are also refused by int()
        raise StrictJsonError(f"the number {digits[:40]}… is out of range")
    return int(digits)
