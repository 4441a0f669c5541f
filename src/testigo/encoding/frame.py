"""How a tokenizer frames a conversation: the prompt, the turns that are learned, the token that ends them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from testigo.encoding.template import Message, Template, Tools
from testigo.encoding.turns import Which, earlier_turns, find_turns
from testigo.errors import EncodingError

_SAMPLE = "\nx"


@dataclass(frozen=True)
class Framed:
    """A conversation as ids.

    Attributes
    ----------
    spans
        (begin, end) of each assistant's turn that counts, with its end [tokens].
    is_merged
        Whether the tokenizer, given the whole text at once, merges characters across a turn's bound. The ids here
        never do.
    """

    ids: tuple[int, ...]
    spans: tuple[tuple[int, int], ...]
    is_merged: bool


@dataclass(frozen=True)
class Frame:
    """The one place that turns messages into ids, in training and in evaluation alike.

    The prompt is the template's own generation prompt. A tokenizer without a chat template gets the plain text of the
    messages, one paragraph each, with the special tokens that the tokenizer itself puts in front.
    """

    tokenizer: Any
    extra_stop_ids: tuple[int, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def template(self) -> Template:
        """What writes the text."""
        return Template(self.tokenizer, self.options)

    @property
    def has_template(self) -> bool:
        """Whether the tokenizer carries a chat template."""
        return self.template.is_there

    def prompt_text(self, messages: Sequence[Message], tools: Tools = ()) -> str:
        """The text that stands before the answer."""
        return self.template.prompt(messages, tools)

    def prompt_ids(self, messages: Sequence[Message], tools: Tools = (), *, which: Which = "all") -> tuple[int, ...]:
        """The ids that stand before the answer; a beginning-of-sequence token comes once, from one side only.

        Raises
        ------
        EncodingError
            When an earlier turn's bounds cannot be proved.
        """
        text = self.template.prompt(messages, tools)
        earlier = earlier_turns(self.template, messages, tools, text, which=which)
        ids, _, _ = self._cut(text, [place for span in earlier for place in span])
        return self._front + ids

    def encode(
        self, messages: Sequence[Message], answer: Message, tools: Tools = (), *, which: Which = "all"
    ) -> Framed:
        """A conversation and its answer, up to and with the token that ends it.

        Raises
        ------
        EncodingError
            When a turn's bounds cannot be proved, or nothing ends an answer.
        """
        turns = find_turns(self.template, messages, answer, tools, which=which)
        ids, places, is_merged = self._cut(turns.text, [place for span in turns.spans for place in span])
        if not turns.is_closed:
            ids += self.turn_end_ids
            places = (*places[:-1], len(ids))
        n = len(self._front)
        spans = tuple((n + begin, n + end) for begin, end in zip(places[::2], places[1::2], strict=True))
        return Framed(self._front + ids, spans, is_merged)

    def text_of(self, ids: Sequence[int]) -> str:
        """The exact text of ids: no space before a comma is "cleaned up", as some tokenizers ask for."""
        return str(self.tokenizer.decode(list(ids), clean_up_tokenization_spaces=False))

    def answer_of(self, ids: Sequence[int], *, with_thoughts: bool = False) -> str:
        """The answer in an output, without what the template puts before and after the assistant's words.

        Where the template begins with a block of thoughts, even an empty one, the answer is what follows the block,
        unless thoughts belong to the answer.
        """
        lead, end, _ = self.template.around
        end = end or self.text_of(self.turn_end_ids)
        text = self.text_of(ids)
        if lead.strip() and not with_thoughts:
            before, last, after = text.partition(lead.split()[-1])
            text = after.removeprefix(lead[len(lead.rstrip()) :]) if last else before
        elif not lead.strip():
            text = text.removeprefix(lead)
        mark = self.text_of([self.turn_end_id])
        return text.removesuffix(mark).removesuffix(end.removesuffix(mark))

    def call_of(self, ids: Sequence[int]) -> str:
        """The calls in an output, without the marks and thoughts that the template puts around them."""
        text = self.answer_of(ids)
        return (self.template.marks.sub("", text) if self.template.marks else text).strip()

    @cached_property
    def turn_end_ids(self) -> tuple[int, ...]:
        """What ends the assistant's turn, up to and with the first special token.

        Raises
        ------
        EncodingError
            When neither the template nor the tokenizer has a token that ends an answer.
        """
        if self.has_template and (end := self.template.around[1]):
            return self._after(end)
        if self.tokenizer.eos_token_id is None:
            raise EncodingError(
                expected="a token that ends an answer",
                found="no special token after the assistant's words and no eos_token",
                where="the tokenizer",
                action="set eos_token in the tokenizer's configuration",
            )
        return (int(self.tokenizer.eos_token_id),)

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
    def special_ids(self) -> frozenset[int]:
        """Every token that the tokenizer treats as a mark and not as text."""
        added = getattr(self.tokenizer, "added_tokens_decoder", {})
        marks = {number for number, token in added.items() if getattr(token, "special", False)}
        return frozenset(marks | set(self.tokenizer.all_special_ids))

    @cached_property
    def unknown_id(self) -> int | None:
        """The token for what the tokenizer does not know; None where that token means something else too."""
        own, unknown = self.tokenizer, self.tokenizer.unk_token_id
        others = {own.eos_token_id, own.bos_token_id, own.pad_token_id, *self.stop_ids}
        return None if unknown is None or unknown in others else int(unknown)

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

    def _cut(self, text: str, places: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...], bool]:
        """A text as ids, the number of ids before each place [characters], and whether a merge was prevented.

        The text is tokenised at once, as the model knows it. Only where a token would reach over a place is the text
        cut in two there.
        """
        fixed: tuple[int, ...] = ()
        cut, is_merged = 0, False
        whole, counts = self._ids(text), []
        for place in places:
            upto = self._part(text, cut, place) if place < len(text) else whole
            if whole[: len(upto)] != upto:
                fixed, cut, is_merged = fixed + upto, place, True
                whole, upto = self._part(text, cut, len(text)), ()
            counts.append(len(fixed) + len(upto))
        return fixed + whole, tuple(counts), is_merged

    def _part(self, text: str, begin: int, end: int) -> tuple[int, ...]:
        return self._after(text[begin:end]) if begin else self._ids(text[:end])

    def _after(self, text: str) -> tuple[int, ...]:
        """The ids of a text that goes on after another: without the space that some tokenizers put before a text."""
        if not self._puts_space:
            return self._ids(text)
        front = self._ids(_SAMPLE[0])
        ids = self._ids(_SAMPLE[0] + text)
        return ids[len(front) :] if ids[: len(front)] == front else self._ids(text)

    @cached_property
    def _puts_space(self) -> bool:
        """Whether a text alone begins with a space that it has not, as with SentencePiece."""
        return self._ids(_SAMPLE)[len(self._ids(_SAMPLE[0])) :] != self._ids(_SAMPLE[1:])

    @cached_property
    def _ids(self) -> Callable[[str], tuple[int, ...]]:
        """Ids of a text without special tokens around it. A row's own texts come several times, one after the other."""

        @lru_cache(maxsize=32)
        def ids(text: str) -> tuple[int, ...]:
            return tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"])

        return ids

    @property
    def n_front(self) -> int:
        """How many ids the tokenizer itself puts before a text [tokens]."""
        return len(self._front)

    @cached_property
    def _front(self) -> tuple[int, ...]:
        """What the tokenizer itself puts before a text; a chat template writes its own."""
        if self.has_template:
            return ()
        ids, plain = tuple(self.tokenizer("x")["input_ids"]), self._ids("x")
        # BERT-like tokenizers also close the text; what comes after it must not stand before the answer.
        n = next((n for n in range(len(ids) - len(plain) + 1) if ids[n : n + len(plain)] == plain), 0)
        return ids[:n]
