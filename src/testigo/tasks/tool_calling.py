"""Tool calling: a request and the tools that are offered become the calls to make."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Literal

from testigo.tasks.calls import (
    Call,
    Expected,
    arguments_match,
    matched,
    read_calls,
    read_definitions,
    read_expected,
)
from testigo.tasks.chat import message_problems, opened
from testigo.tasks.task import Kind, input_problems, no_label

_SYSTEM = (
    "You can call these tools:\n{tools}\n"
    'Answer with a JSON list of the calls to make, and nothing else: [{"name": ..., "arguments": {...}}]'
)


@dataclass(frozen=True)
class ToolCalling:
    """A request and the tools that are offered become the calls to make, as one JSON list.

    `valid_call`: the whole output is calls, each of a tool that is offered, with all that it requires, nothing that it
    does not know, and every value of the type that the definition gives. `name_match`: as many calls of each tool as
    expected. `arguments_match`: each expected call has a call of its own whose arguments are all allowed and of the
    right types, whatever it is named. `exact_match`: both in the same call, and no call too many. With `order: kept`
    the calls also have to come in the expected order; `any` is for calls that could run side by side.
    """

    input: str
    target_field: str
    tools_field: str
    system: str | None = None
    order: Literal["any", "kept"] = "any"

    name: ClassVar[str] = "tool-calling"
    labels: ClassVar[tuple[str, ...]] = ()
    metrics: ClassVar[Mapping[str, Kind]] = MappingProxyType(
        {"valid_call": "binary", "name_match": "binary", "arguments_match": "binary", "exact_match": "binary"}
    )

    def problems(self, fields: Mapping[str, Any]) -> list[str]:
        """No request, no usable definitions or expected calls, or an expected call that its definition refuses."""
        problems = self._input_problems(fields)
        read: dict[str, Any] = {}
        for name, what, reader in (
            (self.tools_field, "tools", read_definitions),
            (self.target_field, "target", read_expected),
        ):
            if name not in fields:
                problems.append(f"the field '{name}' ({what}) is missing")
                continue
            try:
                read[what] = reader(fields[name])
            except ValueError as error:
                problems.append(f"the field '{name}' ({what}) cannot be used: {error}")
        if len(read) < 2:
            return problems
        offered = {definition.name: definition for definition in read["tools"]}
        for expected in read["target"]:
            if expected.name not in offered:
                problems.append(f"the target calls '{expected.name}', which is not offered: {', '.join(offered)}")
                continue
            call = expected.example(offered[expected.name].required)
            if not offered[expected.name].takes(call):
                told = json.dumps(call.arguments, ensure_ascii=False)[:200]
                problems.append(f"the target's call of '{expected.name}' does not follow its own definition: {told}")
        return problems

    def messages(self, fields: Mapping[str, Any]) -> list[dict[str, Any]]:
        """A system message with the tools in place of `{tools}`, then the request."""
        words = (self.system or _SYSTEM).replace("{tools}", _compact(_plain(fields[self.tools_field])))
        return opened(self._request(fields), words)

    def request(self, fields: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The request alone, where the chat template writes the tools."""
        return opened(self._request(fields), self.system)

    def tools(self, fields: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The definitions as a chat template takes them."""
        return [{"type": "function", "function": one} for one in _plain(fields[self.tools_field])]

    def answer(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The expected calls as the assistant's message that a chat template takes."""
        called = [{"type": "function", "function": call} for call in self._calls(fields)]
        return {"role": "assistant", "content": "", "tool_calls": called}

    def target(self, fields: Mapping[str, Any]) -> str:
        """The expected calls as one compact JSON list: of each argument the first allowed value."""
        return _compact(self._calls(fields))

    def label_of(self, fields: Mapping[str, Any]) -> int:
        """Calls are no class."""
        raise no_label(self)

    def score(self, fields: Mapping[str, Any], output: str) -> dict[str, float]:
        """The four metrics of one output."""
        found = read_calls(output)
        if found is None:
            return dict.fromkeys(self.metrics, 0.0)
        expected = read_expected(fields[self.target_field])
        offered = {definition.name: definition for definition in read_definitions(fields[self.tools_field])}
        names = [call.name for call in found], [call.name for call in expected]

        def fits(one: Expected, call: Call) -> bool:
            typed = one.name not in offered or offered[one.name].types_fit(call.arguments)
            return typed and arguments_match(one, call.arguments)

        same_names = names[0] == names[1] if self.order == "kept" else Counter(names[0]) == Counter(names[1])
        n_arguments = self._paired(expected, found, fits)
        n_calls = self._paired(expected, found, lambda one, call: one.name == call.name and fits(one, call))
        return {
            "valid_call": float(bool(found) and all(c.name in offered and offered[c.name].takes(c) for c in found)),
            "name_match": float(same_names),
            "arguments_match": float(n_arguments == len(expected)),
            "exact_match": float(n_calls == len(expected) == len(found)),
        }

    def _paired(
        self, expected: Sequence[Expected], found: Sequence[Call], agree: Callable[[Expected, Call], bool]
    ) -> int:
        """How many expected calls have a call of their own that agrees with them."""
        if self.order == "kept":
            return sum(map(agree, expected, found))
        return matched([[agree(one, call) for call in found] for one in expected])

    def _calls(self, fields: Mapping[str, Any]) -> list[dict[str, Any]]:
        required = {tool.name: tool.required for tool in read_definitions(fields[self.tools_field])}
        expected = read_expected(fields[self.target_field])
        calls = [one.example(required.get(one.name, ())) for one in expected]
        return [{"name": call.name, "arguments": call.arguments} for call in calls]

    def _input_problems(self, fields: Mapping[str, Any]) -> list[str]:
        value = fields.get(self.input)
        if not isinstance(value, list):
            return input_problems(fields, self.input)
        problems = message_problems(_flat(value), self.input)
        if not problems and _flat(value)[-1]["role"] not in ("user", "tool"):
            problems.append(f"the last message of '{self.input}' must ask for something; it is the assistant's")
        return problems

    def _request(self, fields: Mapping[str, Any]) -> list[dict[str, Any]]:
        value = fields[self.input]
        if isinstance(value, list):
            return [dict(message) for message in _flat(value)]
        return [{"role": "user", "content": str(value)}]


def _flat(value: list[Any]) -> list[Any]:
    """Messages; the leaderboard's rows hold a list of turns, each a list of messages."""
    if all(isinstance(turn, list) for turn in value):
        return [message for turn in value for message in turn]
    return value


def _plain(value: Any) -> Any:
    """Definitions without what only wraps them; JSON text of a flat table is read."""
    value = json.loads(value) if isinstance(value, str) else value
    return [one["function"] if isinstance(one.get("function"), dict) else one for one in value]


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
