"""The text of a file: UTF-8, or a named error with the byte where it ends and what it may be instead."""

from __future__ import annotations

import codecs
import unicodedata
from collections import Counter

from testigo.errors import Problem

BYTE_ORDER_MARK = codecs.BOM_UTF8
_WIDE = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}  # the longer marks first: that of UTF-32 begins with that of UTF-16
_USUAL = {"LATIN": "cp1252", "CYRILLIC": "cp1251"}
_SAMPLE_BYTES = 20_000
_AROUND = 20


def wide_encoding(start: bytes) -> str | None:
    """UTF-16 or UTF-32 by the mark at the start of a file, or by zero bytes in its first characters; else None."""
    for mark, name in _WIDE.items():
        if start.startswith(mark):
            return name
    if len(start) >= 4 and start[:4].count(0) >= 2:
        return "UTF-16" if start[:4].count(0) == 2 else "UTF-32"
    return None


def is_wide(name: str, encoding: str) -> Problem:
    """The problem of a whole file in UTF-16 or UTF-32."""
    found = f"{encoding}, by its first bytes"
    return Problem("text in UTF-8", found, name, _convert(encoding, name))


def not_utf8(where: str, name: str, content: bytes, at: int, offset: int, guesses: dict[str, str | None]) -> Problem:
    """What stands where UTF-8 ends, and a guess at what the file is.

    Parameters
    ----------
    content
        The line or the file.
    at
        The place of the first byte in `content` that is not UTF-8.
    offset
        The same place, counted from the start of the file.
    guesses
        File -> its encoding, as it was guessed at its first such byte: a guess takes time, and a file may have many.
    """
    if name not in guesses:
        guesses[name] = _guess(content)
    encoding = guesses[name]
    found = f"the byte 0x{content[at]:02x} at offset {offset} of the file, which is not"
    if encoding is not None:
        around = content[max(0, at - _AROUND) : at + _AROUND].decode(encoding, "replace")
        found += f"; it may be {encoding}: '{' '.join(around.split())}'"
    return Problem("text in UTF-8", found, where, _convert(encoding or "its encoding", name))


def _convert(encoding: str, name: str) -> str:
    if encoding == "its encoding":
        return "save the file as UTF-8"
    return f"save the file as UTF-8: iconv -f {encoding} -t UTF-8 {name.rpartition('/')[2]} > new"


def _guess(content: bytes) -> str | None:
    """The likeliest encoding of some bytes that are not UTF-8; None when none fits."""
    from charset_normalizer import from_bytes

    sample = content[:_SAMPLE_BYTES]
    best = from_bytes(sample).best()
    if best is None or best.encoding == "utf_8":
        return None
    # Pages of one alphabet differ in few letters, and a short text cannot tell them apart: the usual one is meant.
    encoding = _USUAL.get(_alphabet(str(best)), best.encoding)
    try:
        sample.decode(encoding)
    except UnicodeDecodeError:
        encoding = best.encoding
    return encoding.replace("_", "-").upper()


def _alphabet(text: str) -> str:
    """The alphabet of most letters that are not ASCII, as Unicode names it: LATIN, CYRILLIC; "" without any."""
    letters = (letter for letter in text if not letter.isascii() and letter.isalpha())
    counts = Counter(unicodedata.name(letter, "?").partition(" ")[0] for letter in letters)
    return counts.most_common(1)[0][0] if counts else ""
