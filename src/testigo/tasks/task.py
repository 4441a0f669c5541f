"""What every kind of task can do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol

Kind = Literal["binary", "bounded", "corpus"]


class Task(Protocol):
    """A kind of task, bound to the fields of one campaign. It keeps no state.

    A kind whose calls a chat template can write also has `request(fields)`, the messages without the tools,
    `tools(fields)`, their definitions, and `answer(fields)`, the assistant's message with its `tool_calls`.
    Messages may hold earlier turns of the assistant; which of them are learned is the encoding's matter.
    """

    @property
    def name(self) -> str:
        """The task's kind, as in the campaign file."""
        ...

    @property
    def metrics(self) -> Mapping[str, Kind]:
        """Each metric: yes/no a row (0 or 1), between 0 and 1 a row, or of all rows together, which `score` lacks."""
        ...

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the classes in the order of the head; empty where an answer is no class."""
        ...

    def problems(self, fields: Mapping[str, Any]) -> list[str]:
        """What is wrong with a row, in words; empty when it can be used."""
        ...

    def messages(self, fields: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The prompt as messages: `[{"role": "system" | "user" | "assistant" | "tool", "content": text}, ...]`."""
        ...

    def target(self, fields: Mapping[str, Any]) -> str:
        """The exact text to learn; the name of the class where there are classes."""
        ...

    def label_of(self, fields: Mapping[str, Any]) -> int:
        """The number of the row's class in `labels`, where there are classes."""
        ...

    def score(self, fields: Mapping[str, Any], output: str) -> dict[str, float]:
        """Each metric of one output. Never raises for any output."""
        ...


def no_label(task: Task) -> ValueError:
    """Somebody asked for the class of a row whose answer is a text."""
    return ValueError(f"{task.name} has no classes")


def prompt(system: str | None, user: str) -> list[dict[str, Any]]:
    """The messages of one prompt; no system message when the campaign gives none."""
    said = [{"role": "system", "content": system}] if system else []
    return [*said, {"role": "user", "content": user}]


def input_problems(fields: Mapping[str, Any], name: str) -> list[str]:
    """What is wrong with a row's input text."""
    if name not in fields:
        return [f"the field '{name}' (input) is missing"]
    value = fields[name]
    if not isinstance(value, str):
        return [f"the field '{name}' (input) must be text, and is {kind_of(value)}"]
    if not value.strip():
        return [f"the field '{name}' (input) is empty"]
    return []


def kind_of(value: object) -> str:
    """The JSON word for a value's type."""
    if isinstance(value, bool):
        return "true or false"
    words = {str: "text", int: "a number", float: "a number", dict: "an object", list: "a list", type(None): "null"}
    return words.get(type(value), type(value).__name__)
