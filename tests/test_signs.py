"""Signs that steer a terminal or end a drawing are shown as signs, and all other letters stay as they are."""

from __future__ import annotations

import pytest

from testigo.signs import drawable, in_one_line, shown

LETTERS = "São José, ½ €, 日本語, שלום, می\u200cخواهم, 👩\u200d🔧, e\u0301"


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("a\x00b\r", "a\\x00b\\x0d"),
        ("\x9b2J", "\\u009b2J"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\u2066a\u2069\u200f", "\\u2066a\\u2069\\u200f"),
        ("\ud800\ufffe", "\\ud800\\ufffe"),
        (LETTERS, LETTERS),
    ],
)
def test_what_steers_a_terminal_is_shown_by_number(text: str, seen: str) -> None:
    assert shown(text) == seen == in_one_line(text)


def test_lines_stay_in_a_text_and_not_in_a_name() -> None:
    assert shown("a\n\tb") == "a\n\tb"
    assert in_one_line("a\n\tb") == "a\\x0a\\x09b"


def test_all_texts_of_a_specification_become_drawable_and_nothing_else_changes() -> None:
    made = drawable({"a\x0b": ["x\x1b\x00", ("\ud800", "\ufffe", "\u202e")], "n": 1.5, "yes": True, "no": None})
    assert made == {"a␋": ["x␛␀", ["\ufffd", "\ufffd", "\ufffd"]], "n": 1.5, "yes": True, "no": None}
    assert drawable({LETTERS: f"{LETTERS}\n"}) == {LETTERS: f"{LETTERS}\n"}
