"""A token's text as a reader can see it: white space, control signs and halves of letters have a picture each."""

from __future__ import annotations

import unicodedata
from functools import cache
from typing import Any

SPACE, LINE_END, TAB = "·", "⏎", "⇥"
_SIGNS = {" ": SPACE, "\n": LINE_END, "\t": TAB, "\r": "␍", "\u00a0": "⍽", "\u3000": "□"}
# Letters that a font does not draw, that join what stands apart, or that turn the direction of writing round.
_UNSEEN = ("Cc", "Cf", "Zl", "Zp", "Zs", "Co", "Cn", "Cs", "Mn", "Me")
_LOST = "\ufffd"


def visible(text: str) -> str:
    """The text with a picture for each sign that cannot be seen: `·` a space, `⏎` a line end, `\\u200b` by number.

    Marks that stand on a letter of their own text stay: they are seen there.
    """
    shown = []
    for place, sign in enumerate(text):
        category = unicodedata.category(sign)
        if sign in _SIGNS:
            shown.append(_SIGNS[sign])
        elif category not in _UNSEEN or (category in ("Mn", "Me") and place and not text[place - 1].isspace()):
            shown.append(sign)
        else:
            shown.append(f"\\u{ord(sign):04x}" if ord(sign) > 0xFF else f"\\x{ord(sign):02x}")
    return "".join(shown)


def token_text(frame: Any, token: int) -> str:
    """What a token stands for; the bytes of one that holds a part of a letter alone, as `\\xe2\\x82`."""
    text = str(frame.text_of([token]))
    if _LOST not in text:
        return visible(text)
    piece = frame.tokenizer.convert_ids_to_tokens(token)
    if not isinstance(piece, str):
        return visible(text)
    if piece.startswith("<0x") and piece.endswith(">"):  # byte fallback of SentencePiece
        return f"\\x{piece[3:-1].lower()}"
    own = _bytes_of_letters()
    if all(sign in own for sign in piece):
        return "".join(visible(chr(own[s])) if own[s] < 0x80 else f"\\x{own[s]:02x}" for s in piece)
    return visible(piece)


@cache
def _bytes_of_letters() -> dict[str, int]:
    """The letters that byte-level BPE writes for bytes (GPT-2, Radford 2019, `bytes_to_unicode`)."""
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    return {letter: byte for byte, letter in bytes_to_unicode().items()}


def shown_lines(text: str) -> str:
    """A text of several lines with a picture for signs that cannot be seen; spaces and line ends stay as they are."""
    return "".join(
        sign if sign in " \n\t" or unicodedata.category(sign) not in _UNSEEN[:6] else visible(sign) for sign in text
    )
