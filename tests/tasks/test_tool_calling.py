"""Tool calling: reading calls, types, allowed values, several calls and their order."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testigo.tasks import ToolCalling
from testigo.tasks.calls import is_allowed, is_of_type, matched, read_calls, read_definitions, read_expected

WEATHER = {
    "name": "weather.get",
    "description": "The weather of a place.",
    "parameters": {
        "type": "dict",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer"},
            "unit": {"type": "string"},
            "height": {"type": "float"},
            "places": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["city"],
    },
}
PLAY = {
    "name": "play",
    "parameters": {
        "properties": {"artist": {"type": "string"}, "loud": {"type": "boolean"}, "order": {"type": "dict"}},
        "required": ["artist"],
    },
}
TASK = ToolCalling("question", "calls", "tools")


def row(*calls: dict[str, Any], tools: Any = (WEATHER, PLAY)) -> dict[str, Any]:
    return {"question": "Do it.", "tools": list(tools), "calls": list(calls)}


def written(*calls: tuple[str, dict[str, Any]]) -> str:
    return json.dumps([{"name": name, "arguments": arguments} for name, arguments in calls])


ONE = row({"weather.get": {"city": ["Berlin", "Berlin, Germany"], "days": [5], "unit": ["celsius", ""]}})
GOOD = ("weather.get", {"city": "berlin", "days": 5})
TWO = row({"play": {"artist": ["Taylor Swift"]}}, {"play": {"artist": ["Maroon 5"]}})


def scores(fields: dict[str, Any], output: str, **task: Any) -> tuple[float, ...]:
    """valid_call, name_match, arguments_match, exact_match."""
    found = ToolCalling("question", "calls", "tools", **task).score(fields, output)
    return tuple(found[metric] for metric in ("valid_call", "name_match", "arguments_match", "exact_match"))


def test_the_target_is_the_first_allowed_call_without_what_may_be_left_out() -> None:
    assert TASK.problems(ONE) == []
    assert TASK.target(ONE) == '[{"name":"weather.get","arguments":{"city":"Berlin","days":5}}]'
    assert set(TASK.score(ONE, TASK.target(ONE)).values()) == {1.0}


def test_what_the_definition_requires_is_learned_though_it_may_be_left_out() -> None:
    fields = row({"weather.get": {"city": ["", "Rome"], "unit": ["", "celsius"]}})
    assert TASK.problems(fields) == []
    assert TASK.target(fields) == '[{"name":"weather.get","arguments":{"city":"Rome"}}]'
    assert set(TASK.score(fields, TASK.target(fields)).values()) == {1.0}


def test_the_prompt_shows_the_tools_and_then_asks() -> None:
    system, user = TASK.messages(ONE)
    assert '"name":"weather.get"' in system["content"]
    assert "JSON list" in system["content"]
    assert user == {"role": "user", "content": "Do it."}
    own = ToolCalling("question", "calls", "tools", "Tools: {tools}. Call.").messages(ONE)[0]["content"]
    assert own.startswith('Tools: [{"name":"weather.get"')


def test_rows_of_the_leaderboard_hold_turns_of_messages() -> None:
    fields = {**ONE, "question": [[{"role": "user", "content": "Weather in Berlin?"}]]}
    assert TASK.problems(fields) == []
    assert TASK.messages(fields)[-1] == {"role": "user", "content": "Weather in Berlin?"}
    fields["question"] = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    assert "must ask for something" in TASK.problems(fields)[0]


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (written(GOOD), (1, 1, 1, 1)),
        (json.dumps({"name": GOOD[0], "arguments": GOOD[1]}), (1, 1, 1, 1)),
        (f'<tool_call>\n{{"name": "{GOOD[0]}", "arguments": {json.dumps(GOOD[1])}}}\n</tool_call>', (1, 1, 1, 1)),
        (written(("weather.get", {"city": "BERLIN GERMANY", "days": 5, "unit": "Celsius"})), (1, 1, 1, 1)),
        (written(("weather.get", {"city": "Rome", "days": 5})), (1, 1, 0, 0)),
        (written(("weather.get", {"city": "Berlin"})), (1, 1, 0, 0)),  # days may not be left out
        (written(("weather.get", {"city": "Berlin", "days": "5"})), (0, 1, 0, 0)),
        (written(("weather.get", {"city": "Berlin", "days": 5.0})), (0, 1, 0, 0)),
        (written(("weather.get", {"city": "Berlin", "days": True})), (0, 1, 0, 0)),
        (written(("weather.get", {"city": "Berlin", "days": 5, "hours": 3})), (0, 1, 0, 0)),
        (written(("weather.get", {"days": 5})), (0, 1, 0, 0)),  # city is required
        (written(("play", {"city": "Berlin", "days": 5})), (0, 0, 1, 0)),
        (written(("weather", {"city": "Berlin", "days": 5})), (0, 0, 1, 0)),
        (written(GOOD, GOOD), (1, 0, 1, 0)),
        ("[]", (0, 0, 0, 0)),
        ("weather.get(city='Berlin')", (0, 0, 0, 0)),
        ("Sure! " + written(GOOD), (0, 0, 0, 0)),
        ("", (0, 0, 0, 0)),
    ],
)
def test_name_and_arguments_are_scored_apart(output: str, expected: tuple[float, ...]) -> None:
    assert scores(ONE, output) == expected


def test_a_whole_number_is_a_float_and_an_argument_that_may_be_left_out_may_be_given_too() -> None:
    fields = row({"weather.get": {"city": ["Rome"], "height": [3, 3.0]}})
    assert scores(fields, written(("weather.get", {"city": "Rome", "height": 3}))) == (1, 1, 1, 1)
    assert scores(fields, written(("weather.get", {"city": "Rome", "height": 3.0}))) == (1, 1, 1, 1)
    assert scores(ONE, written(("weather.get", {**GOOD[1], "unit": "fahrenheit"}))) == (1, 1, 0, 0)


def test_calls_side_by_side_may_come_in_any_order_unless_it_is_kept() -> None:
    there = written(("play", {"artist": "Maroon 5"}), ("play", {"artist": "Taylor Swift"}))
    assert scores(TWO, there) == (1, 1, 1, 1)
    assert scores(TWO, there, order="kept") == (1, 1, 0, 0)
    assert scores(TWO, TASK.target(TWO), order="kept") == (1, 1, 1, 1)
    assert scores(TWO, written(("play", {"artist": "Maroon 5"}))) == (1, 0, 0, 0)


def test_each_expected_call_needs_a_call_of_its_own() -> None:
    twice = written(("play", {"artist": "Maroon 5"}), ("play", {"artist": "Maroon 5"}))
    assert scores(TWO, twice) == (1, 1, 0, 0)
    # The first call fits both expected ones, the second only the first: pairing them greedily would fail.
    wide = row({"play": {"artist": ["A", "B"]}}, {"play": {"artist": ["A"]}})
    assert scores(wide, written(("play", {"artist": "A"}), ("play", {"artist": "B"}))) == (1, 1, 1, 1)


def test_name_and_arguments_of_one_call_belong_together() -> None:
    fields = row({"play": {"artist": ["A"]}}, {"weather.get": {"city": ["Rome"]}})
    mixed = written(("play", {"city": "Rome"}), ("weather.get", {"artist": "A"}))
    assert scores(fields, mixed) == (0, 1, 1, 0)


def test_plain_calls_are_taken_as_they_are() -> None:
    fields = row({"name": "play", "arguments": {"artist": "", "order": {"songs": ["x", "y"]}}})
    assert TASK.problems(fields) == []
    assert json.loads(TASK.target(fields))[0]["arguments"] == {"artist": "", "order": {"songs": ["x", "y"]}}
    assert scores(fields, TASK.target(fields)) == (1, 1, 1, 1)
    assert scores(fields, written(("play", {"order": {"songs": ["x", "y"]}}))) == (0, 1, 0, 0)
    assert scores(fields, written(("play", {"artist": "", "order": {"songs": "x"}}))) == (1, 1, 0, 0)


def test_objects_and_lists_inside_are_compared_value_by_value() -> None:
    fields = row({"play": {"artist": ["A"], "order": [{"size": ["large", "big"], "milk": ["", "oat"]}]}})
    assert TASK.target(fields).endswith('"order":{"size":"large"}}}]')
    for order, right in (({"size": "Big"}, 1), ({"size": "big", "milk": "oat"}, 1), ({"milk": "oat"}, 0), ({}, 0)):
        assert scores(fields, written(("play", {"artist": "A", "order": order})))[3] == right
    places = row({"weather.get": {"city": ["Rome"], "places": [["Forum", "Trevi"]]}})
    assert scores(places, written(("weather.get", {"city": "Rome", "places": ["forum", "trevi"]})))[3] == 1
    assert scores(places, written(("weather.get", {"city": "Rome", "places": ["trevi", "forum"]})))[3] == 0
    assert scores(places, written(("weather.get", {"city": "Rome", "places": ["forum", 3]})))[0] == 0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"question": ""}, "is empty"),
        ({"question": 3}, "must be text"),
        ({"tools": []}, "a list of definitions, one at least"),
        ({"tools": [{"parameters": {}}]}, "definition 1 has no name"),
        ({"tools": [WEATHER, WEATHER, PLAY]}, "two definitions have one name"),
        ({"tools": "not json"}, "cannot be used"),
        ({"calls": []}, "a call or a list of calls"),
        ({"calls": [{"weather.get": {"city": "Berlin"}}]}, "call 1 is neither"),
        ({"calls": [{"stop": {}}]}, "the target calls 'stop', which is not offered: weather.get, play"),
        ({"calls": [{"play": {"artist": [3]}}]}, "does not follow its own definition"),
        ({"calls": [{"play": {"loud": [True]}}]}, "does not follow its own definition"),
    ],
)
def test_a_row_that_cannot_be_used_is_told(changes: dict[str, Any], words: str) -> None:
    told = TASK.problems({**ONE, **changes})
    assert len(told) == 1
    assert words in told[0]


def test_missing_fields_are_each_named() -> None:
    assert len(TASK.problems({})) == 3


def test_tables_hold_tools_and_calls_as_json_text() -> None:
    flat = {**ONE, "tools": json.dumps(ONE["tools"]), "calls": json.dumps(ONE["calls"])}
    assert TASK.problems(flat) == []
    assert TASK.messages(flat) == TASK.messages(ONE)
    assert scores(flat, written(GOOD)) == (1, 1, 1, 1)


def test_wrapped_definitions_and_calls_with_arguments_as_text_are_read() -> None:
    wrapped = {**ONE, "tools": [{"type": "function", "function": tool} for tool in (WEATHER, PLAY)]}
    assert TASK.problems(wrapped) == []
    assert TASK.messages(wrapped) == TASK.messages(ONE)
    (call,) = read_calls(json.dumps({"type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}})) or ()
    assert call.arguments == {"a": 1}


@pytest.mark.parametrize(
    ("value", "kind", "right"),
    [
        (5, "integer", True), (5.0, "integer", False), (True, "integer", False), (5, "float", True),
        (True, "float", False), (True, "boolean", True), (1, "boolean", False), ("a", "string", True),
        (["a"], "array", True), (["a"], "tuple", True), ({}, "dict", True), (None, "string", False),
        ("x", "any", True), (None, "null", True), (3, "unheard-of", True),
    ],
)  # fmt: skip
def test_values_are_held_against_the_definitions_types(value: Any, kind: str, right: bool) -> None:
    assert is_of_type(value, {"type": kind}) is right


def test_several_types_and_no_type_are_allowed() -> None:
    assert is_of_type(None, {"type": ["string", "null"]})
    assert not is_of_type(3, {"type": ["string", "null"]})
    assert is_of_type(3, {})
    assert is_of_type(3, None)
    assert not is_of_type({"a": 1}, {"type": "object", "properties": {"a": {"type": "string"}}})


@pytest.mark.parametrize(
    ("value", "allowed", "right"),
    [
        ("April 1, 2024", "april 1 2024", True), ("it's", 'it"s', True), ("a", "b", False), (1, "1", False),
        (1, 1.0, True), (True, 1, False), (1, True, False), (None, None, True), (None, "", False),
        ([1, [2]], [1, [2]], True), ([1], [1, 2], False), ({"a": 1}, {"a": [1, 2]}, True),
        ({"a": 3}, {"a": [1]}, False),
    ],
)  # fmt: skip
def test_allowed_values(value: Any, allowed: Any, right: bool) -> None:
    assert is_allowed(value, allowed) is right


@given(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=3))
def test_the_best_pairing_is_found(agree: list[list[bool]]) -> None:
    from itertools import permutations

    best = max(sum(agree[i][j] for i, j in enumerate(order[: len(agree)])) for order in permutations(range(3)))
    assert matched(agree) == best


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.text(max_size=60) | json_values.map(json.dumps))
def test_no_output_breaks_the_score(output: str) -> None:
    assert set(TASK.score(ONE, output).values()) <= {0.0, 1.0}


@given(st.dictionaries(st.text(min_size=1, max_size=5), json_values, max_size=4))
def test_a_plain_call_agrees_with_itself(arguments: dict[str, Any]) -> None:
    tools = [{"name": "f", "parameters": {"properties": {key: {} for key in arguments}}}]
    fields = row({"name": "f", "arguments": arguments}, tools=tools)
    assert TASK.problems(fields) == []
    assert scores(fields, TASK.target(fields)) == (1, 1, 1, 1)


def test_definitions_and_calls_are_read_whole() -> None:
    (weather, _) = read_definitions([WEATHER, PLAY])
    assert weather.required == ("city",)
    (call,) = read_expected({"play": {"artist": ["A"]}})
    assert call.example().arguments == {"artist": "A"}


def test_calls_are_no_class() -> None:
    with pytest.raises(ValueError, match="no classes"):
        TASK.label_of(ONE)
