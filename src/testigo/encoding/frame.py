"""How a tokenizer frames a turn: the prompt before the answer, and the token that ends it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from testigo.errors import EncodingError

Message = Mapping[str, str]
_PROBE = "TestigoProbe"


@dataclass(frozen=True)
class Frame:
    """The one place that turns messages into prompt ids, in training and in evaluation alike.

    The prompt is the template's own generation prompt. A tokenizer without a chat template gets the plain text of the
    messages, one paragraph each, with the special tokens that the tokenizer itself puts in front.
    """

    tokenizer: Any
    extra_stop_ids: tuple[int, ...] = ()

    @property
    def has_template(self) -> bool:
        """Whether the tokenizer carries a chat template."""
        return bool(getattr(self.tokenizer, "chat_template", None))

    def prompt_text(self, messages: Sequence[Message]) -> str:
        """The text that stands before the answer."""
        if self.has_template:
            return str(self.tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True))
        return "".join(f"{message['content']}\n\n" for message in messages)

    def conversation_text(self, messages: Sequence[Message], answer: str) -> str:
        """The text of the whole conversation as the template itself would write it."""
        if self.has_template:
            turns = [*messages, {"role": "assistant", "content": answer}]
            return str(self.tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=False))
        return self.prompt_text(messages) + answer + (self.tokenizer.eos_token or "")

    def prompt_ids(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """The ids that stand before the answer; a beginning-of-sequence token comes once, from one side only."""
        text = self.prompt_text(messages)
        if self.has_template:
            return tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"])
        ids = tuple(self.tokenizer(text)["input_ids"])
        plain = tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"])
        # BERT-like tokenizers also close the text; what comes after it must not stand before the answer.
        lead = next((n for n in range(len(ids) - len(plain) + 1) if ids[n : n + len(plain)] == plain), 0)
        return ids[:lead] + plain

    def text_ids(self, text: str) -> tuple[int, ...]:
        """The ids of an answer's text alone."""
        return tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def text_of(self, ids: Sequence[int]) -> str:
        """The exact text of ids: no space before a comma is "cleaned up", as some tokenizers ask for."""
        return str(self.tokenizer.decode(list(ids), clean_up_tokenization_spaces=False))

    @cached_property
    def turn_end_ids(self) -> tuple[int, ...]:
        """What ends the assistant's turn, up to and with the first special token.

        Raises
        ------
        EncodingError
            When neither the template nor the tokenizer has a token that ends an answer.
        """
        if self.has_template:
            text = self.conversation_text([{"role": "user", "content": "Hello"}], _PROBE)
            _, probe, rest = text.rpartition(_PROBE)
            if not probe:
                raise EncodingError(
                    expected="a chat template that writes the assistant's words",
                    found="a rendered conversation without them",
                    where="the tokenizer's chat template",
                    action="use the template that belongs to this model",
                )
            special = {*self.tokenizer.all_special_ids, *self._special_added_ids}
            ids = self.tokenizer(rest, add_special_tokens=False)["input_ids"]
            for place, token in enumerate(ids):
                if token in special:
                    return tuple(ids[: place + 1])
        if self.tokenizer.eos_token_id is None:
            raise EncodingError(
                expected="a token that ends an answer",
                found="no special token after the assistant's words and no eos_token",
                where="the tokenizer",
                action="set eos_token in the tokenizer's configuration",
            )
        return (int(self.tokenizer.eos_token_id),)

    @cached_property
    def _special_added_ids(self) -> frozenset[int]:
        added = getattr(self.tokenizer, "added_tokens_decoder", {})
        return frozenset(number for number, token in added.items() if getattr(token, "special", False))

    @property
    def turn_end_id(self) -> int:
        """The token whose learning teaches the model to stop."""
        return self.turn_end_ids[-1]

    @cached_property
    def stop_ids(self) -> tuple[int, ...]:
        """Every id at which generation stops: the turn's end, the tokenizer's and the model's own end tokens."""
        eos = self.tokenizer.eos_token_id
        return tuple(sorted({self.turn_end_id, *self.extra_stop_ids, *([] if eos is None else [int(eos)])}))

    @cached_property
    def bos_expected(self) -> int:
        """How many beginning-of-sequence tokens a prompt must begin with: 1 where template or tokenizer puts one."""
        bos = self.tokenizer.bos_token_id
        if bos is None:
            return 0
        return int(self.leading_bos(self.prompt_ids([{"role": "user", "content": "Hello"}])) > 0)

    def leading_bos(self, ids: Sequence[int]) -> int:
        """How many beginning-of-sequence tokens stand at the very front."""
        bos, n = self.tokenizer.bos_token_id, 0
        while bos is not None and n < len(ids) and ids[n] == bos:
            n += 1
        return n
