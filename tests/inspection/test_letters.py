"""Signs that cannot be seen have a picture each; halves of letters are told as bytes."""

from __future__ import annotations

import pytest
import tiny

from testigo.encoding import Frame
from testigo.inspection.letters import shown_lines, token_text, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (" a\tb\n", "·a⇥b⏎"),
        ("a\u00a0b", "a⍽b"),
        ("a\u200bb", "a\\u200bb"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\x1b[31m", "\\x1b[31m"),
        ("\x00", "\\x00"),
        ("e\u0301", "e\u0301"),
        ("\u0301", "\\u0301"),
        (" \u0301", "·\\u0301"),
        ("é😀", "é😀"),
    ],
)
def test_what_cannot_be_seen_is_shown(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_lines_keep_their_spaces_and_ends_and_lose_their_tricks() -> None:
    assert shown_lines("a b\n\tc\u202ed\x1b") == "a b\n\tc\\u202ed\\x1b"


def test_a_token_that_is_half_a_letter_is_told_by_its_bytes() -> None:
    frame = Frame(tiny.tokenizer())
    ids = frame.tokenizer("😀 ж", add_special_tokens=False)["input_ids"]
    shown = [token_text(frame, token) for token in ids]
    assert "\ufffd" not in "".join(shown)
    assert "\\xf0" in shown
    assert token_text(frame, frame.turn_end_id) == "<|im_end|>"
