"""Signs of a text that steer a terminal or that a picture cannot hold, made visible: rows may contain any of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

_FORBIDDEN_IN_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 has no letters for: https://www.w3.org/TR/xml/#charsets."""
# Control signs C0 and C1, the lines and paragraphs of Unicode, the signs that turn the direction of writing round
# (Unicode Standard Annex #9, table 3 and 4), and halves of letters, which no output can be encoded with.
_STEERING = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff\ufffe\uffff"
_STEERS = re.compile(f"[{_STEERING}]")
_STEERS_OR_BREAKS = re.compile(f"[\t\n{_STEERING}]")
_TURNS_ROUND = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_ABOVE_TWO_BYTES = re.compile("[\U00010000-\U0010ffff]")
_LOST = "\ufffd"
_PICTURES = 0x2400  # ␀, the first of Unicode's pictures of control signs


def shown(text: str) -> str:
    r"""The text with `\x1b` in place of what moves a cursor, changes a colour, or turns writing round; lines stay."""
    return _STEERS.sub(_numbered, text)


def in_one_line(text: str) -> str:
    r"""The same for a name within a line: line ends and tabs are written as `\x0a` and `\x09`."""
    return _STEERS_OR_BREAKS.sub(_numbered, text)


def drawable(content: Any) -> Any:
    """A text, or all texts in lists and mappings, with pictures for signs that SVG forbids or that turn it round."""
    return _each(content, lambda text: _TURNS_ROUND.sub(_LOST, _FORBIDDEN_IN_XML.sub(_pictured, text)))


def without_pairs(content: Any) -> Any:
    """The same with a sign in place of each letter beyond U+FFFF, which JavaScript holds as two halves."""
    return _each(content, lambda text: _ABOVE_TWO_BYTES.sub(_LOST, text))


def _each(content: Any, change: Callable[[str], str]) -> Any:
    if isinstance(content, str):
        return change(content)
    if isinstance(content, dict):
        return {_each(key, change): _each(value, change) for key, value in content.items()}
    return [_each(item, change) for item in content] if isinstance(content, list | tuple) else content


def _numbered(match: re.Match[str]) -> str:
    number = ord(match[0])
    return f"\\x{number:02x}" if number < 0x7F else f"\\u{number:04x}"


def _pictured(match: re.Match[str]) -> str:
    number = ord(match[0])
    return chr(_PICTURES + number) if number < 0x20 else _LOST
