"""One row as its tensors have it, beside what the template itself writes for that row."""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from testigo.corpus import Row
from testigo.encoding import EncodedRow, Encoder, Pack, lay_out
from testigo.encoding.frame import Framed
from testigo.encoding.template import Message, Tools
from testigo.errors import EncodingError


@dataclass(frozen=True)
class Seen:
    """A row's tensors, and what they ought to be.

    Attributes
    ----------
    laid
        The row alone, in the campaign's layout.
    proved
        The same row, made anew from its text; its spans are what must count and nothing else.
    """

    encoder: Encoder
    row: EncodedRow
    raw: Row
    laid: Pack
    messages: Sequence[Message]
    answer: Message
    tools: Tools
    proved: Framed

    @cached_property
    def places(self) -> tuple[int, ...]:
        """Places of the row that the loss is computed against, read off the tensors."""
        return tuple(place + 1 for place in self.laid.places.tolist())

    @cached_property
    def learned(self) -> dict[int, int]:
        """The ids that the loss is computed against, by place."""
        return dict(zip(self.places, self.laid.targets.tolist(), strict=True))

    @property
    def counts_prompt(self) -> bool:
        """Whether a token that is not the assistant's counts."""
        own = {place for begin, end in self.proved.spans for place in range(begin, end)}
        return any(place not in own for place in self.places)

    @property
    def asks_the_same(self) -> bool:
        """Whether the prompt in the tensors is evaluation's prompt, token for token."""
        return self.row.ids[: self.row.n_before_answer] == self.encoder.prompt_ids(self.raw.fields)

    @property
    def cut(self) -> Literal["", "target", "inside", "end"]:
        """What of the last answer is cut off at the row's end: nothing, all of it, a part, or its end mark alone."""
        begin, _ = self.proved.spans[-1]
        n, whole = self.row.n_tokens, self.proved.ids
        if not self.encoder.maximum_length <= n < len(whole) or self.row.ids != whole[:n]:
            return ""
        if n <= begin:
            return "target"
        said = self.encoder.output_of(whole[begin:n], self.raw.fields)
        return "end" if _same(said, _text_of(self.answer)) and self.answer.get("content") else "inside"

    @property
    def says_target(self) -> bool:
        """Whether each turn that counts, without its end, says what the row says."""
        said = [message for message in self.messages if message["role"] == "assistant"]
        said = [*said[len(said) + 1 - len(self.proved.spans) :], self.answer]
        return all(
            self._says(message, begin, end) for message, (begin, end) in zip(said, self.proved.spans, strict=True)
        )

    def _says(self, message: Message, begin: int, end: int) -> bool:
        ids = [self.learned[place] for place in range(begin, end - 1) if place in self.learned]
        if message is self.answer and _is_plain(message):
            return _same(self.encoder.output_of(ids, self.raw.fields), str(message["content"]))
        if message is self.answer and message.get("tool_calls"):
            scores = self.encoder.task.score(self.raw.fields, self.encoder.output_of(ids, self.raw.fields))
            return min(scores.values()) == 1.0  # what is learned, written by a model, would be right
        # What the template makes of earlier turns is proved to hold their words.
        return ids == list(self.proved.ids[begin : end - 1])

    @property
    def misses_end(self) -> bool:
        """Whether a turn's end is not learned."""
        return any(self.learned.get(end - 1) != self.proved.ids[end - 1] for _, end in self.proved.spans)

    @property
    def ends(self) -> tuple[int, int]:
        """How many ends of a turn are learned, and how many turns there are."""
        marks = {self.proved.ids[end - 1] for _, end in self.proved.spans}
        return sum(token in marks for token in self.learned.values()), len(self.proved.spans)

    @property
    def lost_words(self) -> str:
        """The first message before the answer whose words the template leaves out of the prompt: its role and words."""
        prompt = _squeezed(self.encoder.frame.prompt_text(self.messages, self.tools))
        for message in self.messages:
            words = message.get("content")
            if message["role"] == "assistant" or not isinstance(words, str):
                continue  # earlier answers are proved, or may be told without their thoughts
            if _squeezed(words) not in prompt and _squeezed(json.dumps(words, ensure_ascii=False)[1:-1]) not in prompt:
                return f"{message['role']}: {words[:60]!r}"
        return ""

    @property
    def changed_text(self) -> str:
        """Where the text differs after it was tokenised and decoded: "before became after"; empty where it does not.

        White space and case do not count, since some tokenizers drop them for every text, nor do two ways to write one
        accented letter.
        """
        frame = self.encoder.frame
        if frame.unknown_id in self.row.ids:
            return ""  # told as unknown tokens
        said = frame.text_of(self.row.ids[frame.n_front :][: self.row.n_before_answer - frame.n_front])
        return difference(frame.prompt_text(self.messages, self.tools), said)


def see(encoder: Encoder, row: EncodedRow, raw: Row, layout: Literal["packed", "padded"], pad_id: int) -> Seen:
    """A row beside what it ought to be.

    Raises
    ------
    EncodingError
        When it cannot be proved which tokens are the assistant's.
    """
    messages, answer, tools = encoder.conversation(raw.fields)
    proved = encoder.frame.encode(messages, answer, tools, which=encoder.turns)
    return Seen(encoder, row, raw, lay_out([row], layout, pad_id=pad_id), messages, answer, tools, proved)


class Marks:
    """Special tokens that a text brought in: those beyond what the same conversation holds with other words.

    Counted on ids, so a mark that a tokenizer makes of other characters is found too. A special token that neither the
    template nor the tokenizer uses to frame a text (one that was added for the task) may stand in a text.
    """

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._plain: dict[str, Framed | None] = {}
        tokenizer = encoder.frame.tokenizer
        own = (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id)
        self._framing = {int(token) for token in own if token is not None} | set(encoder.frame.stop_ids)

    def brought(self, seen: Seen) -> tuple[str, str]:
        """The first mark that the prompt's text brought in, and the first that a learned text did; "" for none."""
        plain = self._plain_twin(seen)
        if plain is None:
            return "", ""
        marks = self._framing | (set(plain.ids) & self._encoder.frame.special_ids)
        if self._encoder.frame.unknown_id is not None:
            marks.discard(self._encoder.frame.unknown_id)
        (asked, learned), (plain_asked, plain_learned) = _apart(seen.proved, marks), _apart(plain, marks)
        return self._first(asked - plain_asked), self._first(learned - plain_learned)

    def _first(self, more: Counter[int]) -> str:
        return self._encoder.frame.text_of([min(more)]) if more else ""

    def _plain_twin(self, seen: Seen) -> Framed | None:
        turns = [_plain(message) for message in (*seen.messages, seen.answer)]
        key = json.dumps([turns, len(seen.tools)], sort_keys=True, default=str)
        if key not in self._plain:
            frame, which = self._encoder.frame, self._encoder.turns
            try:
                self._plain[key] = frame.encode(turns[:-1], turns[-1], seen.tools, which=which)
            except EncodingError:  # a template may refuse words that say nothing
                self._plain[key] = None
        return self._plain[key]


def _apart(framed: Framed, marks: set[int]) -> tuple[Counter[int], Counter[int]]:
    """Marks outside and inside the turns that count."""
    own = {place for begin, end in framed.spans for place in range(begin, end)}
    inside = Counter(token for place, token in enumerate(framed.ids) if place in own and token in marks)
    return Counter(token for token in framed.ids if token in marks) - inside, inside


def _plain(message: Message) -> dict[str, Any]:
    """The same message with other words."""
    return {key: _other_words(value) if key in _SAID else value for key, value in message.items()}


_SAID = ("content", "reasoning_content", "thinking", "tool_calls")


def _other_words(value: Any) -> Any:
    if isinstance(value, str):
        return "x"
    if isinstance(value, Mapping):
        kept = ("type", "name")  # which kind of part it is, and which tool is called
        return {key: inner if key in kept else _other_words(inner) for key, inner in value.items()}
    return [_other_words(inner) for inner in value] if isinstance(value, list | tuple) else value


def _is_plain(message: Message) -> bool:
    return isinstance(message.get("content"), str) and not message.get("tool_calls")


def _text_of(message: Message) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else ""


def _squeezed(text: str) -> str:
    return "".join(text.split())


def _same(one: str, other: str) -> bool:
    """Equal but for white space at both ends and for two ways to write one accented letter."""
    return unicodedata.normalize("NFC", one.strip()) == unicodedata.normalize("NFC", other.strip())


def difference(before: str, after: str) -> str:
    """Where two texts differ, as "before became after", white space, case and ways to write an accent aside."""
    a, b = (unicodedata.normalize("NFC", _squeezed(text)).casefold() for text in (before, after))
    if a == b:
        return ""
    at = next((n for n, pair in enumerate(zip(a, b, strict=False)) if pair[0] != pair[1]), min(len(a), len(b)))
    return f"{a[max(at - 8, 0) : at + 8]!r} became {b[max(at - 8, 0) : at + 8]!r}"
