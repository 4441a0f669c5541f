"""What a model's chat template writes: a prompt, a conversation, the words around an answer."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from testigo.errors import EncodingError

Message = Mapping[str, Any]
Tools = Sequence[Mapping[str, Any]]
PROBE = "TestigoProbe"
_FIXED_CLOCK = "{%- macro strftime_now(form) -%}{{ date_string }}{%- endmacro -%}"
"""A declared date also answers a template that asks the clock itself."""
_HELLO = ({"role": "user", "content": "Hello"},)


@dataclass(frozen=True)
class Template:
    """The tokenizer's own chat template; without one, the plain text of the messages, one paragraph each.

    Attributes
    ----------
    options
        What is handed to the template besides the messages, such as `enable_thinking: false`.
    """

    tokenizer: Any
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_there(self) -> bool:
        """Whether the tokenizer carries a chat template."""
        return bool(getattr(self.tokenizer, "chat_template", None))

    def prompt(self, messages: Sequence[Message], tools: Tools = ()) -> str:
        """The text that stands before the assistant's next words.

        Raises
        ------
        EncodingError
            When the template refuses the conversation, in its own words.
        """
        if not self.is_there:
            return "".join(f"{message['content']}\n\n" for message in messages)
        return self._render(messages, tools, add_generation_prompt=True)

    def conversation(self, messages: Sequence[Message], tools: Tools = ()) -> str:
        """The text of a whole conversation. Without a template, the last message closes with the end of text.

        Raises
        ------
        EncodingError
            When the template refuses the conversation, in its own words.
        """
        if not self.is_there:
            *asked, answer = messages
            return self.prompt(asked) + str(answer["content"]) + (self.tokenizer.eos_token or "")
        return self._render(messages, tools, add_generation_prompt=False)

    @cached_property
    def around(self) -> tuple[str, str, str]:
        """What the template writes around an answer: before it, its end up to the first mark, and after that.

        Before it stands what a generation prompt leaves to the model, such as an empty block of thoughts. The end is
        empty where no mark ends an answer.

        Raises
        ------
        EncodingError
            When the template does not write the assistant's words.
        """
        text = self.conversation([*_HELLO, {"role": "assistant", "content": PROBE}])
        _, probe, rest = text.rpartition(PROBE)
        if not probe:
            raise EncodingError(
                expected="a chat template that writes the assistant's words",
                found=f"a rendered conversation without them: {excerpt(text)}",
                where="the tokenizer's chat template",
                action="use the template that belongs to this model",
            )
        mark = self.marks.search(rest) if self.marks is not None else None
        end = mark.end() if mark else 0
        return self.lead or "", rest[:end], rest[end:]

    @cached_property
    def lead(self) -> str | None:
        """What stands between a generation prompt and an answer; None where an answer does not follow its prompt."""
        front, _, _ = self.conversation([*_HELLO, {"role": "assistant", "content": PROBE}]).rpartition(PROBE)
        asked = self.prompt(_HELLO)
        return front.removeprefix(asked) if front.startswith(asked) else None

    def history(self, messages: Sequence[Message], tools: Tools = ()) -> str:
        """What the template writes of messages once they are answered, up to where an answer begins.

        It is what two different answers have before them in common.
        """
        answered = [
            self.conversation([*messages, {"role": "assistant", "content": words}], tools)
            for words in (PROBE, "Witness")
        ]
        one, other = answered
        n = next((n for n, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), 0)
        return one[:n].removesuffix(self.lead or "")

    @cached_property
    def marks(self) -> re.Pattern[str] | None:
        """Any of the tokenizer's special tokens, the longest first; None where it has none."""
        added = getattr(self.tokenizer, "added_tokens_decoder", {})
        special = {str(token) for token in added.values() if getattr(token, "special", False)}
        every = special | set(self.tokenizer.all_special_tokens)
        return re.compile("|".join(map(re.escape, sorted(every, key=len, reverse=True)))) if every else None

    @cached_property
    def reads_clock(self) -> bool:
        """Whether the template writes the day on which it is rendered."""
        if not self.is_there or "date_string" in self.options:
            return False
        with contextlib.suppress(EncodingError):  # a refused greeting is told where rows are rendered
            self.prompt(_HELLO)
            try:
                self._apply(_HELLO, (), strftime_now="no clock")
            except TypeError:  # a text was called
                return True
        return False

    def _render(self, messages: Sequence[Message], tools: Tools, *, add_generation_prompt: bool) -> str:
        try:
            text = self._apply(messages, tools, add_generation_prompt=add_generation_prompt)
        except Exception as refused:  # a template refuses in its own words and by its own kinds of error
            roles = ", ".join(str(message.get("role")) for message in messages) or "no message"
            raise EncodingError(
                expected="a conversation that the chat template can write",
                found=f"{type(refused).__name__}: {refused} (the roles are: {roles})",
                where="the tokenizer's chat template",
                action="give the messages in the order that the template asks for; where it knows no system message, "
                "take `task.system` out and put its words into the input",
            ) from refused
        return str(text)

    def _apply(self, messages: Sequence[Message], tools: Tools, **options: Any) -> Any:
        named = [dict(tool) for tool in tools] or None
        template = self.tokenizer.get_chat_template(tools=named)
        return self.tokenizer.apply_chat_template(
            [dict(message) for message in messages],
            tools=named,
            chat_template=(_FIXED_CLOCK if "date_string" in self.options else "") + template,
            tokenize=False,
            **{**self.options, **options},
        )


def excerpt(text: str, most: int = 600) -> str:
    """A rendered text in quotes, its middle left out where it is long."""
    if len(text) <= most:
        return repr(text)
    return f"{text[: most // 2]!r} … {text[-most // 2 :]!r}"
