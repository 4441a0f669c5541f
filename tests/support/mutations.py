"""Damaged inputs: what disks, editors, other tools and other people make of a sound file."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import strategies as st

PIECES = [
    b"", b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\r", b"\n", b"\n\n", b",", b";", b'"', b"'", b"{", b"}", b"[", b"]",
    b":", b"- ", b"  ", b"\t", b"#", b"&a ", b"*a", b"!!python/object:os.system ", b"<<: ", b"---\n", b"null", b"true",
    b"NaN", b"-Infinity", b"1e999", b"-1", b"0", b"1" * 400, b"0x10", b".5", b"\\u0000", b"\\ud800", b"\xed\xa0\x80",
    "é".encode(), b"../" * 8, b"/etc/passwd", b"%s%n", b"[" * 300, b"{" * 300, b'{"a":' * 200, b"[" * 5000,
    b"=cmd|' /C calc'!A0", b"\xe2\x80\xa8",
]  # fmt: skip
VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 2**31, -(2**63) - 1, 10**400, 0.5, -0.0, 1e308, float("nan"), float("inf"), "", " ",
    "\x00", "\ud800", "null", "../../etc/passwd", "/etc/passwd", "a" * 5000, "é", [], {}, [[]], [None], {"": None},
    {"a": {"a": []}}, [1, "a", None], "1", "-1", "NaN", "2026-13-45T99:99:99Z",
]  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn, sound: bytes) -> bytes:
    """Bytes with a few edits: pieces put in, stretches cut out, doubled or moved, single bits flipped."""
    content = bytearray(sound)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(content)))
        length = draw(st.sampled_from([1, 1, 2, 4, 16, 64, 1000]))
        edit = draw(st.sampled_from(["put", "put", "cut", "double", "flip", "truncate", "swap"]))
        if edit == "put":
            content[at:at] = draw(st.sampled_from(PIECES))
        elif edit == "cut":
            del content[at : at + length]
        elif edit == "double":
            content[at:at] = content[at : at + length]
        elif edit == "flip" and at < len(content):
            content[at] ^= 1 << draw(st.integers(0, 7))
        elif edit == "truncate":
            del content[at:]
        elif edit == "swap":
            other = draw(st.integers(0, len(content)))
            content[at : at + length], content[other : other + length] = (
                content[other : other + length],
                content[at : at + length],
            )
    return bytes(content)


def places(document: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every value of a JSON document."""
    inner = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    return [place, *(way for key, value in inner for way in places(value, (*place, key)))]


@st.composite
def wrong(draw: st.DrawFn, sound: Any) -> Any:
    """A JSON document with a few values replaced, taken out, or under another name."""
    document = copy.deepcopy(sound)
    for _ in range(draw(st.integers(1, 3))):
        *way, last = draw(st.sampled_from(places(document)[1:] or [(None,)]))
        around = document
        for step in way:
            around = around[step]
        value = draw(st.sampled_from([*VALUES, *(_at(document, way) for way in places(document))]))
        if last is None or not isinstance(around, dict | list):
            document = value
            continue
        edit = draw(st.sampled_from(["replace", "replace", "take out", "rename", "add"]))
        if edit == "replace":
            around[last] = copy.deepcopy(value)
        elif edit == "take out":
            del around[last]
        elif isinstance(around, dict):
            around[draw(st.sampled_from(["", "__class__", "x", "update"]))] = (
                around.pop(last) if edit == "rename" else copy.deepcopy(value)
            )
        else:
            around.insert(0, copy.deepcopy(value))
    return document


def _at(document: Any, way: tuple[Any, ...]) -> Any:
    for step in way:
        document = document[step]
    return document


def wrong_json(sound: Any) -> st.SearchStrategy[bytes]:
    """A JSON document with wrong values, or damaged as text."""
    return damaged(json.dumps(sound).encode()) | wrong(sound).map(_encoded)


def wrong_lines(sound: list[Any]) -> st.SearchStrategy[bytes]:
    """JSON Lines with wrong values, or damaged as text."""
    text = b"\n".join(map(_encoded, sound)) + b"\n"
    return damaged(text) | wrong(sound).map(
        lambda lines: b"\n".join(map(_encoded, lines)) if isinstance(lines, list) else _encoded(lines)
    )


def _encoded(value: Any) -> bytes:
    return json.dumps(value).encode()
