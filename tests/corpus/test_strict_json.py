from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testigo.corpus.strict_json import MAXIMUM_DEPTH, StrictJsonError, parse_strict

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(10**12), 10**12)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4))


@given(VALUES, st.sampled_from(["", " ", "\n", "\t\r\n"]))
def test_what_json_writes_is_read_back_the_same(value: object, around: str) -> None:
    assert parse_strict(around + json.dumps(value) + around) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "Here it is: {}",
        "{} {}",
        "{}\nDone.",
        '```json\n{"a": 1}\n```',
        '{"a": 1, "a": 2}',
        '{"b": {"a": 1, "a": 1}}',
        '{"a": NaN}',
        '{"a": -Infinity}',
        '{"a": 1e999}',
        '{"a": ' + "9" * 5000 + "}",
        "{'a': 1}",
        '{"a": 1,}',
        "\u00a0{}",
        '{"a": "line\nbreak"}',
    ],
)
def test_what_is_not_one_strict_value_is_refused(text: str) -> None:
    with pytest.raises(StrictJsonError):
        parse_strict(text)


@pytest.mark.parametrize("levels", [MAXIMUM_DEPTH + 1, 1_000, 200_000])
@pytest.mark.parametrize("signs", ["[]", "{}", "["])
def test_deep_text_is_refused_and_never_reaches_the_interpreters_limit(levels: int, signs: str) -> None:
    opened = '{"a":' if signs == "{}" else "["
    text = opened * levels + "1" + (signs[1] * levels if len(signs) == 2 else "")
    with pytest.raises(StrictJsonError, match="levels"):
        parse_strict(text)


def test_the_deepest_allowed_text_is_read() -> None:
    assert parse_strict("[" * MAXIMUM_DEPTH + "]" * MAXIMUM_DEPTH)


def test_brackets_inside_text_are_not_levels() -> None:
    text = "[{" * 500 + '\\"'
    assert parse_strict(json.dumps({"a": text})) == {"a": text}


def test_text_that_never_ends_is_refused_in_linear_work() -> None:
    with pytest.raises(StrictJsonError):
        parse_strict('"' + '\\"' * 500_000 + "\\")


@given(st.text(alphabet='{}[]",:\\ tn10eE.-ab\n', max_size=60) | st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(StrictJsonError):
        parse_strict(text)
