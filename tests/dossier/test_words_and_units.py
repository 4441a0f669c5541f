"""Numbers, marks and line breaks as people read them."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from testigo.dossier import units
from testigo.dossier.comparison_facts import differences, shortened
from testigo.dossier.history import known_before
from testigo.dossier.marking import marked
from testigo.dossier.words import breakable, explained
from testigo.ledger import Event


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0123456, "0.0123"),
        (4.5678, "4.57"),
        (12345.0, "12,300"),
        (-0.5, "−0.500"),
        (0, "0"),
        (1.234e-7, "1.23 × 10⁻⁷"),
        (5e-324, "4.94 × 10⁻³²⁴"),
        (0.09996, "0.100"),
        (None, "not measured"),
        (math.nan, "not finite"),
    ],
)
def test_numbers_have_three_significant_digits(value: float | None, text: str) -> None:
    assert units.number(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
@example(5e-324)
def test_no_number_is_printed_in_programmers_notation(value: float) -> None:
    assert not re.search(r"\de[+-]?\d|nan|inf", units.number(value))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.85, "850 ms"),
        (12.34, "12.3 s"),
        (245, "4 min 05 s"),
        (12000, "3 h 20 min"),
        (187200, "2 d 4 h"),
        (None, "not measured"),
    ],
)
def test_durations_have_the_two_units_that_matter(seconds: float | None, text: str) -> None:
    assert units.duration(seconds) == text


def test_sizes_shares_points_and_money() -> None:
    assert units.size(1536) == "1.50 KiB"
    assert units.size(None) == "not measured"
    assert units.share(0.8754) == "87.5 %"
    assert units.points(-0.0321) == "−3.2 points"
    assert units.points(-0.00001) == "0.0 points"
    assert units.interval(-0.01, 0.2) == "−1.0 to +20.0 points"
    assert units.interval(-0.01, None) == "at least −1.0 points"
    assert units.probability(0.00000001) == "< 0.0001"
    assert units.money(0.001, "EUR") == "< 0.01 EUR"
    assert units.money(None, "EUR") == "no price given"
    assert units.date("2026-11-30T10:41:00+01:00") == "30 Nov 2026, 09:41 UTC"
    assert units.date("yesterday") == "yesterday"


@given(st.text(), st.text())
def test_marks_joined_are_the_output_to_the_letter(output: str, target: str) -> None:
    marks = marked(output, target)
    assert "".join(mark.text for mark in marks if mark.kind != "absent") == output


@given(st.text())
def test_an_output_equal_to_its_target_has_no_mark(text: str) -> None:
    assert {mark.kind for mark in marked(text, text)} <= {"same"}


def test_marks_show_what_departs_and_what_is_absent() -> None:
    kinds = [(mark.kind, mark.text) for mark in marked('{"a": 1}', '{"a":2,"b":3}')]
    assert ("other", "1") in kinds
    assert all(text.strip() for kind, text in kinds if kind == "other")
    assert [m.text for m in marked("one three", "one two three") if m.kind == "absent"] == ["two"]


@given(st.text())
def test_line_breaks_change_no_letter_and_let_no_markup_through(text: str) -> None:
    broken = breakable(text)
    assert "<" not in broken.replace("<wbr>", "")
    assert broken.replace("<wbr>", "").unescape() == text


def test_a_shortened_text_says_how_much_is_left_out() -> None:
    text = shortened("a" * 3000, 100)
    assert len(text) < 200
    assert "2,900 characters left out" in text
    assert shortened("short") == "short"


def test_differences_name_the_place_and_forgive_rounding_only() -> None:
    assert differences({"a": 0.1 + 0.2, "more": 1}, {"a": 0.3}) == []
    assert differences({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}) == ["a.b[1]: claimed 2, found 3"]
    assert differences({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}) == ["a.c: claimed 2, found None"]
    assert differences({"a": True}, {"a": 1}) == []
    assert differences({}, {"a": 1}) == ["a: claimed None, found 1"]


def test_what_was_known_is_counted_up_to_the_event_only() -> None:
    history = [
        Event(n, "", kind, None, {}, "", "") for n, kind in enumerate(("note", "run-ended", "run-ended", "compared"), 1)
    ]
    assert known_before(1, history) == "nothing: no result had been seen"
    assert known_before(4, history) == "2 finished runs"


def test_rules_are_explained_by_their_first_line() -> None:
    assert explained("D101")
    assert explained("Z999") == ""
