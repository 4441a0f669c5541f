"""Chat: a conversation of several turns, of which the model learns the assistant's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

from testigo.tasks.generation import Generation
from testigo.tasks.task import Kind, kind_of, no_label

ROLES = ("system", "user", "assistant", "tool")


@dataclass(frozen=True)
class Chat:
    """A conversation: a list of messages `{"role": ..., "content": ...}` that ends with the assistant's words.

    Every turn of the assistant is learned; the last one is what evaluation asks for, after all that was said before.
    Metrics as for `Generation`, of the last turn.
    """

    input: str
    system: str | None = None

    name: ClassVar[str] = "chat"
    labels: ClassVar[tuple[str, ...]] = ()
    metrics: ClassVar[Mapping[str, Kind]] = MappingProxyType({"exact_match": "binary", "token_f1": "bounded"})

    def problems(self, fields: Mapping[str, Any]) -> list[str]:
        """No list of messages, a message without role or words, or a last turn that is not the assistant's."""
        if self.input not in fields:
            return [f"the field '{self.input}' (messages) is missing"]
        value = fields[self.input]
        problems = message_problems(value, self.input)
        if problems:
            return problems
        roles = [message["role"] for message in value]
        if "system" in roles[1:]:
            problems.append(f"a system message stands first or nowhere in '{self.input}', and is message "
                            f"{roles.index('system', 1) + 1}")  # fmt: skip
        if roles[-1] != "assistant" or not _text(value[-1]).strip():
            said = roles[-1] if _text(value[-1]).strip() else f"{roles[-1]}, without words"
            problems.append(f"the last message of '{self.input}' must be the assistant's words, and is of the {said}")
        elif not {"user", "tool"} & set(roles[:-1]):
            problems.append(f"nobody asks anything in '{self.input}': no user's message stands before the answer")
        return problems

    def messages(self, fields: Mapping[str, Any]) -> list[dict[str, Any]]:
        """All that was said before the last turn; the campaign's system message where the row has none of its own."""
        return opened([dict(message) for message in fields[self.input][:-1]], self.system)

    def target(self, fields: Mapping[str, Any]) -> str:
        """The assistant's last words."""
        return _text(fields[self.input][-1])

    def label_of(self, fields: Mapping[str, Any]) -> int:
        """A text is no class."""
        raise no_label(self)

    def score(self, fields: Mapping[str, Any], output: str) -> dict[str, float]:
        """The two metrics of the last turn."""
        return Generation("", "last").score({"last": self.target(fields)}, output)


def message_problems(value: Any, name: str) -> list[str]:
    """What is wrong with a list of messages: its shape, roles, and words."""
    if not isinstance(value, list):
        return [f"the field '{name}' must be a list of messages, and is {kind_of(value)}"]
    if not value:
        return [f"the field '{name}' holds no message"]
    problems = []
    for number, message in enumerate(value, 1):
        place = f"message {number} of '{name}'"
        if not isinstance(message, dict) or not {"role", "content"} <= message.keys():
            has = ", ".join(map(str, message)) if isinstance(message, dict) else kind_of(message)
            problems.append(f"{place} must be an object with role and content, and has {has or 'nothing'}")
        elif message["role"] not in ROLES:
            problems.append(f"{place} has the role {message['role']!r}; known are {', '.join(ROLES)}")
        elif not isinstance(message["content"], str) and not (message["content"] is None and _calls(message)):
            problems.append(f"the content of {place} must be text, and is {kind_of(message['content'])}")
        elif not _text(message).strip() and message["role"] in ("system", "user"):
            problems.append(f"{place} is empty")
    return problems


def opened(messages: Sequence[dict[str, Any]], system: str | None) -> list[dict[str, Any]]:
    """The messages with a system message in front, unless they have their own; a call without words says nothing."""
    said = [{**message, "content": _text(message)} for message in messages]
    words = system.strip() if system else ""
    if words and (not said or said[0]["role"] != "system"):
        return [{"role": "system", "content": words}, *said]
    return said


def _text(message: Mapping[str, Any]) -> str:
    return message["content"] if isinstance(message.get("content"), str) else ""


def _calls(message: Mapping[str, Any]) -> bool:
    return message.get("role") == "assistant" and bool(message.get("tool_calls"))
