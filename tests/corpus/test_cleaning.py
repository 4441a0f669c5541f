from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testigo.campaign.sections import Data
from testigo.corpus import CLEANING_STEPS
from testigo.corpus.cleaning import clean
from testigo.corpus.row import RawRow


def cleaned(steps: list[str], *rows: dict[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[str]]:
    result = clean([RawRow(row, f"f:{n}", "source") for n, row in enumerate(rows, 1)], steps, ("text", "target"))
    return [row.fields for row in result.rows], result.steps, [row.where for row, _ in result.dropped]


@pytest.mark.parametrize(
    ("step", "before", "after"),
    [
        ("unicode", "cafe\u0301", "caf\u00e9"),
        ("strip", " \ta b\n", "a b"),
        ("spaces", " a \n\n b\u00a0c ", "a b c"),
    ],
)
def test_a_step_changes_texts_also_inside_objects_and_counts_rows(step: str, before: str, after: str) -> None:
    row = {"text": before, "target": {"x": [before, 2]}, "n": 1}
    other = {"text": "same", "target": "same"}
    rows, steps, _ = cleaned([step], row, other)
    assert rows == [{"text": after, "target": {"x": [after, 2]}, "n": 1}, other]
    assert steps == [{"step": step, "changed": 1, "dropped": 0}]


def test_rows_without_input_or_target_are_dropped_with_a_count() -> None:
    full = {"text": "a", "target": {"n": 0}, "note": ""}
    empty: list[dict[str, Any]] = [
        {"text": " ", "target": "b"},
        {"text": "a", "target": {}},
        {"text": "a", "target": None},
    ]
    rows, steps, dropped = cleaned(["drop-empty"], *empty, full)
    assert rows == [full]
    assert steps == [{"step": "drop-empty", "changed": 0, "dropped": 3}]
    assert dropped == ["f:1", "f:2", "f:3"]


def test_a_missing_field_is_not_empty_and_stays_for_the_check_to_tell() -> None:
    assert cleaned(["drop-empty"], {"text": "a"})[0] == [{"text": "a"}]


def test_steps_work_in_the_order_of_the_campaign() -> None:
    row = {"text": "a", "target": "\u00a0"}
    assert cleaned(["strip", "drop-empty"], row)[1] == [
        {"step": "strip", "changed": 1, "dropped": 0},
        {"step": "drop-empty", "changed": 0, "dropped": 1},
    ]


@given(st.text(), st.sampled_from(CLEANING_STEPS))
def test_a_step_done_twice_changes_nothing_more(text: str, step: str) -> None:
    once = cleaned([step], {"text": text, "target": "t"})[0]
    assert cleaned([step], *once)[0] == once


def test_every_step_that_a_campaign_may_name_exists() -> None:
    named = get_args(get_args(Data.model_fields["clean"].annotation)[0])
    assert named
    assert set(named) <= set(CLEANING_STEPS)
