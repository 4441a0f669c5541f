"""Calls of tools: reading them out of a text, and holding them against definitions and allowed values.

The rows are those of the Berkeley Function Calling Leaderboard, as its paper and data describe them (Patil et al. 2025,
"The Berkeley Function Calling Leaderboard", ICML): a definition is `{"name", "description", "parameters"}`, and an
expected call is `{name: {argument: [allowed values]}}`, where an empty text among them says that the argument may be
left out. An expected call may also be a plain one, `{"name": ..., "arguments": {...}}`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from testigo.corpus.strict_json import StrictJsonError, parse_strict

_TAGGED = re.compile(r"\s*<tool_call>(.*?)</tool_call>", re.DOTALL)
_LOOSE = re.compile(r"[ ,./\-_*^]")
_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "float": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "tuple": (list,),
    "object": (dict,),
    "dict": (dict,),
    "null": (type(None),),
}


@dataclass(frozen=True)
class Call:
    """A call as a model wrote it."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Expected:
    """A call that is asked for.

    Attributes
    ----------
    allowed
        Each argument's allowed values; an empty text among them: it may be left out.
    is_plain
        Whether each argument has one value, taken as it is: no empty text that allows to leave it out.
    """

    name: str
    allowed: dict[str, tuple[Any, ...]]
    is_plain: bool = False

    def example(self, required: Sequence[str] = ()) -> Call:
        """The call to learn: of each argument the first allowed value.

        Arguments that may be left out are, unless the tool's definition requires them.
        """
        if self.is_plain:
            return Call(self.name, {key: values[0] for key, values in self.allowed.items()})
        arguments = {}
        for key, values in self.allowed.items():
            given = [value for value in values if value != ""] or list(values)
            if "" not in values or key in required:
                arguments[key] = _first(given)
        return Call(self.name, arguments)


@dataclass(frozen=True)
class Definition:
    """A tool that is offered: its name, the types of its arguments, and which are required."""

    name: str
    properties: dict[str, Any]
    required: tuple[str, ...]

    def takes(self, call: Call) -> bool:
        """Whether a call names this tool, has all that is required, nothing unknown, and each value of its type."""
        known = call.name == self.name and set(self.required) <= set(call.arguments) <= set(self.properties)
        return known and self.types_fit(call.arguments)

    def types_fit(self, arguments: Mapping[str, Any]) -> bool:
        """Whether each value has the type of its argument."""
        return all(is_of_type(value, self.properties.get(key)) for key, value in arguments.items())


def read_calls(text: str) -> tuple[Call, ...] | None:
    """The calls that a whole text consists of; None when it says anything else.

    A JSON object `{"name", "arguments"}`, a JSON list of them, or such objects between `<tool_call>` and
    `</tool_call>`, as many models are taught. No words before, between or after.
    """
    inside = _TAGGED.findall(text)
    if inside and _TAGGED.sub("", text).strip():
        return None
    try:
        values = [parse_strict(part) for part in inside] if inside else parse_strict(text)
    except StrictJsonError:
        return None
    calls = [_call(value) for value in (values if isinstance(values, list) else [values])]
    return tuple(call for call in calls if call is not None) if all(calls) else None


def _call(value: Any) -> Call | None:
    """One call; a wrapping `{"type": "function", "function": {...}}` is taken off."""
    if isinstance(value, dict) and isinstance(value.get("function"), dict):
        value = value["function"]
    if not isinstance(value, dict) or not set(value) <= {"name", "arguments", "parameters", "id", "type"}:
        return None
    arguments = value.get("arguments", value.get("parameters", {}))  # Llama's templates write `parameters`
    if isinstance(arguments, str):  # OpenAI's form has the arguments as JSON text
        try:
            arguments = parse_strict(arguments)
        except StrictJsonError:
            return None
    named = isinstance(value.get("name"), str) and bool(value["name"])
    return Call(value["name"], arguments) if named and isinstance(arguments, dict) else None


def read_expected(value: Any) -> tuple[Expected, ...]:
    """The expected calls of a row.

    Raises
    ------
    ValueError
        When the value is no list of calls; the message says what is wrong.
    """
    value = parse_strict(value) if isinstance(value, str) else value
    if isinstance(value, dict):
        value = [value]
    if not isinstance(value, list) or not value:
        raise ValueError("it must be a call or a list of calls")
    return tuple(_expected(one, number) for number, one in enumerate(value, 1))


def _expected(value: Any, number: int) -> Expected:
    plain = _call(value)
    if plain is not None:
        return Expected(plain.name, {key: (value,) for key, value in plain.arguments.items()}, is_plain=True)
    if isinstance(value, dict) and len(value) == 1:
        ((name, arguments),) = value.items()
        if isinstance(arguments, dict) and all(isinstance(v, list) and v for v in arguments.values()):
            return Expected(name, {key: tuple(values) for key, values in arguments.items()})
    raise ValueError(f"call {number} is neither {{name, arguments}} nor {{name: {{argument: [allowed values]}}}}")


def read_definitions(value: Any) -> tuple[Definition, ...]:
    """The tools that a row offers.

    Raises
    ------
    ValueError
        When the value is no list of definitions; the message says what is wrong.
    """
    value = parse_strict(value) if isinstance(value, str) else value
    if not isinstance(value, list) or not value:
        raise ValueError("it must be a list of definitions, one at least")
    definitions = tuple(_definition(one, number) for number, one in enumerate(value, 1))
    names = [definition.name for definition in definitions]
    if len(set(names)) < len(names):
        raise ValueError("two definitions have one name")
    return definitions


def _definition(value: Any, number: int) -> Definition:
    if isinstance(value, dict) and isinstance(value.get("function"), dict):
        value = value["function"]
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        raise ValueError(f"definition {number} has no name")
    parameters = value.get("parameters") or {}
    properties, required = parameters.get("properties") or {}, parameters.get("required") or []
    if not isinstance(properties, dict) or not isinstance(required, list):
        raise ValueError(f"definition {number}, '{value['name']}', has parameters without properties")
    return Definition(value["name"], properties, tuple(map(str, required)))


def is_of_type(value: Any, description: Any) -> bool:
    """Whether a value has the type that a definition gives: a whole number is a float, `true` is no number.

    A type that is not known (`any`, or none) takes every value; items of lists and values of objects are held against
    their own descriptions where there are any.
    """
    if not isinstance(description, Mapping):
        return True
    kinds = description.get("type")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if all(kind in _TYPES for kind in kinds):
        allowed = tuple(own for kind in kinds for own in _TYPES[kind])
        if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
            return False
    if isinstance(value, list):
        return all(is_of_type(item, description.get("items")) for item in value)
    if isinstance(value, dict):
        known = description.get("properties") or {}
        return all(is_of_type(item, known.get(key)) for key, item in value.items())
    return True


def arguments_match(expected: Expected, arguments: Mapping[str, Any]) -> bool:
    """Whether every argument has an allowed value, and none is missing that may not be left out."""
    if not set(arguments) <= set(expected.allowed):
        return False
    plain = expected.is_plain
    return all(
        any(is_allowed(arguments[key], value, is_plain=plain) for value in values)
        if key in arguments
        else not plain and "" in values
        for key, values in expected.allowed.items()
    )


def is_allowed(value: Any, allowed: Any, *, is_plain: bool = False) -> bool:
    """Whether a value is an allowed one, type by type.

    Texts agree without regard to case, spaces and the signs `, . / - _ * ^`, as the leaderboard's description says
    ("April 1, 2024" is "April 1 2024"); numbers by value, `true` is no number; lists item by item; objects key by
    key, where an allowed object gives a list of allowed values for each key, unless it is a plain one.
    """
    if isinstance(value, bool) or isinstance(allowed, bool):
        return isinstance(value, bool) and isinstance(allowed, bool) and value == allowed
    if isinstance(value, str) and isinstance(allowed, str):
        return _plain(value) == _plain(allowed)
    if isinstance(value, (int, float)) and isinstance(allowed, (int, float)):
        return value == allowed
    if isinstance(value, list) and isinstance(allowed, list):
        pairs = zip(value, allowed, strict=False)
        return len(value) == len(allowed) and all(is_allowed(one, own, is_plain=is_plain) for one, own in pairs)
    if isinstance(value, dict) and isinstance(allowed, dict):
        if not is_plain and all(isinstance(values, list) for values in allowed.values()):
            inner = Expected("", {key: tuple(values) for key, values in allowed.items()})
            return arguments_match(inner, value)
        return value.keys() == allowed.keys() and all(
            is_allowed(value[key], allowed[key], is_plain=is_plain) for key in value
        )
    return value is None and allowed is None


def matched(agree: Sequence[Sequence[bool]]) -> int:
    """The most calls that can be paired one to one, from which call agrees with which expected one."""
    if not agree or not agree[0]:
        return 0
    table = np.asarray(agree, dtype=np.float64)
    from scipy.optimize import linear_sum_assignment  # slow to import, and only a scored call needs it

    rows, columns = linear_sum_assignment(-table)
    return int(table[rows, columns].sum())


def _plain(text: str) -> str:
    return _LOOSE.sub("", text).casefold().replace("'", '"')


def _first(values: Sequence[Any]) -> Any:
    """The first allowed value; of an allowed object, the first value of each key that may not be left out."""
    value = values[0]
    if isinstance(value, dict) and value and all(isinstance(inner, list) and inner for inner in value.values()):
        return {key: _first(inner) for key, inner in value.items() if "" not in inner}
    return [_first([item]) if isinstance(item, dict) else item for item in value] if isinstance(value, list) else value
