from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testigo.errors import CampaignError
from testigo.tasks import Extraction
from testigo.tasks.fields import equal, field_f1
from testigo.tasks.schema import Schema, read_schema

SCHEMA = {
    "type": "object",
    "properties": {
        "product": {"type": "string"},
        "quantity": {"type": "integer"},
        "delivery": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "day": {"type": "string", "format": "date"}},
            "required": ["city"],
        },
    },
    "required": ["product", "quantity", "delivery"],
    "additionalProperties": False,
}
ORDER: dict[str, Any] = {"delivery": {"city": "León"}, "quantity": 2, "product": "nuts"}
ROW = {"email": "Two nuts to León", "order": ORDER}
TASK = Extraction("email", "order", Schema(SCHEMA), "Extract. Schema: {schema}\n")

LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5)
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(max_size=3), VALUES, max_size=4)


def score(order: Any, **changes: Any) -> dict[str, float]:
    return TASK.score(ROW, json.dumps({**order, **changes}))


def test_the_target_is_compact_and_in_the_schemas_order() -> None:
    assert TASK.target(ROW) == '{"product":"nuts","quantity":2,"delivery":{"city":"León"}}'


def test_the_target_can_be_the_text_of_an_object() -> None:
    row = {**ROW, "order": json.dumps(ORDER)}
    assert TASK.problems(row) == []
    assert TASK.target(row) == TASK.target(ROW)


def test_the_system_message_holds_the_compact_schema() -> None:
    system, user = TASK.messages(ROW)
    assert system == {"role": "system", "content": "Extract. Schema: " + json.dumps(SCHEMA, separators=(",", ":"))}
    assert user == {"role": "user", "content": "Two nuts to León"}


def test_without_a_system_message_there_is_only_the_input() -> None:
    assert Extraction("email", "order").messages(ROW) == [{"role": "user", "content": "Two nuts to León"}]


def test_the_target_itself_scores_one_everywhere() -> None:
    assert TASK.score(ROW, TASK.target(ROW)) == dict.fromkeys(TASK.metrics, 1.0)


def test_order_of_keys_white_space_and_the_form_of_a_number_are_no_matter() -> None:
    assert TASK.score(ROW, ' {"quantity": 2.0,\n "product": "nuts", "delivery": {"city": "León"}} ')["exact_match"] == 1


def test_true_is_not_one() -> None:
    assert not equal({"a": True}, {"a": 1})
    assert equal({"a": 1}, {"a": 1.0})


def test_one_wrong_field_of_three_keeps_the_format() -> None:
    assert score(ORDER, quantity=3) == {
        "valid_json": 1.0,
        "schema_valid": 1.0,
        "required_fields": 1.0,
        "exact_match": 0.0,
        "field_f1": pytest.approx(2 / 3),
    }


def test_a_nested_required_field_counts() -> None:
    scores = score(ORDER, delivery={"day": "2026-05-01"})
    assert (scores["schema_valid"], scores["required_fields"]) == (0, 0)


def test_an_object_replaced_by_text_hides_its_required_fields() -> None:
    assert score(ORDER, delivery="León")["required_fields"] == 0


def test_a_wrong_type_and_an_extra_field_are_complete_but_not_valid() -> None:
    for scores in (score(ORDER, quantity="2"), score(ORDER, colour="red")):
        assert (scores["schema_valid"], scores["required_fields"]) == (0, 1)


def test_a_date_that_is_no_date_violates_the_schema() -> None:
    assert score(ORDER, delivery={"city": "León", "day": "2026-02-30"})["schema_valid"] == 0
    assert score(ORDER, delivery={"city": "León", "day": "2026-02-28"})["schema_valid"] == 1


def test_without_a_schema_the_targets_keys_are_required() -> None:
    task = Extraction("email", "order")
    assert task.score(ROW, '{"product": "nuts"}')["required_fields"] == 0
    assert task.score(ROW, json.dumps({**ORDER, "x": 1}))["required_fields"] == 1
    assert task.score(ROW, json.dumps({**ORDER, "x": 1}))["schema_valid"] == 0


def test_field_f1_counts_fields_not_rows() -> None:
    # gold: 4 leaves, found: 3, two agree -> 2*2 / 7
    gold = {"a": 1, "b": {"c": "x", "d": ["y", "z"]}}
    assert field_f1(gold, {"a": 1.0, "b": {"c": "X", "d": ["y"]}}) == pytest.approx(4 / 7)


@given(OBJECTS)
def test_an_object_equals_its_copy_and_scores_one(value: dict[str, Any]) -> None:
    assert equal(value, copy.deepcopy(value))
    assert field_f1(value, copy.deepcopy(value)) == 1


@given(OBJECTS, OBJECTS)
def test_field_f1_is_symmetric_and_bounded_and_one_only_when_equal(one: dict[str, Any], other: dict[str, Any]) -> None:
    value = field_f1(one, other)
    assert value == field_f1(other, one)
    assert 0 <= value <= 1
    assert (value == 1) == equal(one, other)


HOSTILE = [
    "",
    "null",
    "[]",
    '"text"',
    "12",
    "[" * 100_000,
    '{"a":' * 50_000,
    "{" + ",".join(f'"k{n}": {n}' for n in range(20_000)) + "}",
    '{"quantity": ' + "1" * 299 + "}",
    '{"quantity": 1e308}',
    '{"product": "\\ud800"}',
    "\x00\ufeff{}",
    "🙂" * 10_000,
]


@pytest.mark.parametrize("output", HOSTILE, ids=range(len(HOSTILE)))
def test_garbage_never_raises(output: str) -> None:
    scores = TASK.score(ROW, output)
    assert scores.keys() == TASK.metrics.keys()
    assert scores["exact_match"] == 0


@given(st.text() | st.text(alphabet='{}[]":,\\ 0') | VALUES.map(json.dumps) | OBJECTS.map(json.dumps))
def test_any_output_gets_every_metric_within_bounds(output: str) -> None:
    scores = TASK.score(ROW, output)
    assert all(0 <= value <= 1 for value in scores.values())
    assert all(scores[name] in (0, 1) for name, kind in TASK.metrics.items() if kind == "binary")
    assert scores["exact_match"] <= scores["schema_valid"] <= scores["required_fields"] <= scores["valid_json"]


def test_a_number_that_breaks_the_schema_library_is_only_wrong() -> None:
    task = Extraction("email", "order", Schema({"type": "object", "properties": {"n": {"multipleOf": 0.01}}}))
    assert task.score({"order": {"n": 1}}, '{"n": ' + "1" * 300 + "}")["schema_valid"] in (0, 1)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"order": ORDER}, "'email' (input) is missing"),
        ({"email": 5, "order": ORDER}, "must be text, and is a number"),
        ({"email": " ", "order": ORDER}, "'email' (input) is empty"),
        ({"email": "x"}, "'order' (target) is missing"),
        ({"email": "x", "order": []}, "must be a JSON object: it is a list"),
        ({"email": "x", "order": "{no"}, "must be a JSON object: Expecting"),
        ({"email": "x", "order": {**ORDER, "quantity": "2"}}, "violates the schema: quantity: '2' is not of type"),
        ({"email": "x", "order": {**ORDER, "delivery": {}}}, "violates the schema: delivery: 'city' is a required"),
    ],
)
def test_each_problem_of_a_row_is_told(row: dict[str, Any], words: str) -> None:
    (problem,) = TASK.problems(row)
    assert words in problem


def test_a_right_row_has_no_problem() -> None:
    assert TASK.problems(ROW) == []


def test_references_within_the_schema_are_followed(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    item = {"type": "object", "properties": {"b": {}, "a": {}}, "required": ["a"]}
    path.write_text(json.dumps({"properties": {"items": {"items": {"$ref": "#/$defs/item"}}}, "$defs": {"item": item}}))
    task = Extraction("email", "order", read_schema(path))
    row = {"email": "x", "order": {"items": [{"a": 1, "z": 0, "b": 2}]}}
    assert task.target(row) == '{"items":[{"b":2,"a":1,"z":0}]}'
    assert task.score(row, '{"items": [{"b": 2}]}')["required_fields"] == 0


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "FileNotFoundError"),
        ("{", "not UTF-8 JSON"),
        ("[]", "no JSON object"),
        ('{"type": "objekt"}', "type"),
        ('{"properties": {"a": {"$ref": "https://example.org/a.json"}}}', "another document"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused(tmp_path: Path, content: str | None, words: str) -> None:
    path = tmp_path / "schema.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(CampaignError, match=words):
        read_schema(path)


def test_a_reference_to_nothing_is_told_with_the_first_row() -> None:
    task = Extraction("email", "order", Schema({"properties": {"quantity": {"$ref": "#/$defs/none"}}}))
    assert any("does not hold" in problem for problem in task.problems(ROW))
    assert task.score(ROW, TASK.target(ROW))["valid_json"] == 1
