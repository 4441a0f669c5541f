"""A row becomes ids: prompt, answer, the token that ends the turn; and what happens to rows that are too long."""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from testigo.corpus import Row
from testigo.encoding.cutting import Cut, cut
from testigo.encoding.frame import Frame
from testigo.encoding.row import EncodedRow
from testigo.encoding.template import Message, Tools
from testigo.encoding.turns import Which
from testigo.errors import EncodingError, Problem
from testigo.tasks import Task


@dataclass(frozen=True)
class Lengths:
    """What the length policy did to a split: nothing is cut or left out without a count."""

    maximum_length: int
    longer: Literal["refuse", "drop", "truncate"]
    too_long: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    truncated_input: tuple[str, ...] = ()


@dataclass(frozen=True)
class Encoder:
    """Rows to ids by one frame, one task and one length policy.

    Attributes
    ----------
    maximum_length
        Prompt, answer and turn's end together [tokens].
    longer
        `refuse` names every row that is too long, `drop` leaves it out of training and counts it, `truncate` shortens
        the *input field's text* until the prompt leaves room for `reserve`. An expected answer is never cut.
    reserve
        What `truncate` keeps free for the answer [tokens]: the evaluation's `max_new_tokens`, so that the shortened
        prompt does not depend on the answer and is the same in evaluation.
    """

    frame: Frame
    task: Task
    maximum_length: int
    longer: Literal["refuse", "drop", "truncate"] = "refuse"
    reserve: int = 0
    input_field: str = field(default="")
    turns: Which = "all"
    tools: Literal["text", "template"] = "text"

    def prompt_ids(self, fields: dict[str, Any]) -> tuple[int, ...]:
        """The prompt of a row, in training and in evaluation."""
        return self._prompt_ids(self.fitting(fields))

    def encode(self, row: Row) -> EncodedRow:
        """One row whole, whatever its length.

        Raises
        ------
        EncodingError
            When it cannot be proved which tokens are the assistant's.
        """
        messages, answer, tools = self.conversation(row.fields)
        framed = self.frame.encode(messages, answer, tools, which=self.turns)
        spans = framed.spans if len(framed.spans) > 1 else None
        return EncodedRow(row.id, row.category, framed.ids, framed.spans[0][0], spans)

    def conversation(self, fields: dict[str, Any]) -> tuple[Sequence[Message], Message, Tools]:
        """What was said, the answer to learn, and the tools that could be called; the input shortened to fit.

        Where the chat template writes tools and calls, the task gives them as they are, and not as text.
        """
        messages, tools = self._asked(self.fitting(fields))
        task: Any = self.task
        if self.tools == "template":
            return messages, task.answer(fields), tools
        return messages, {"role": "assistant", "content": task.target(fields)}, tools

    def output_of(self, ids: Sequence[int], fields: dict[str, Any]) -> str:
        """The text that is scored, of the ids that a model wrote: without what the template puts around an answer.

        Thoughts are left out where the template has a place for them, unless the row's own target holds them.
        """
        lead = self.frame.template.around[0].split()
        if self.tools == "template":
            return self.frame.call_of(ids)
        return self.frame.answer_of(ids, with_thoughts=bool(lead) and lead[-1] in self.task.target(fields))

    def encode_all(
        self, rows: Iterable[Row], *, progress: Callable[[], object] = lambda: None
    ) -> tuple[tuple[EncodedRow, ...], Lengths]:
        """Every row of a split under the length policy.

        Raises
        ------
        EncodingError
            Under `refuse`, when rows are too long; under any policy, when an expected answer does not fit, or when it
            cannot be proved which tokens are the assistant's. The error names up to ten rows and counts all.
        """
        kept: list[EncodedRow] = []
        too_long: list[EncodedRow] = []
        shortened: list[str] = []
        unproved: dict[str, tuple[Problem, list[str]]] = {}
        for row in rows:
            try:
                encoded = self.encode(row)
            except EncodingError as refused:
                problem = refused.problems[0]
                unproved.setdefault(problem.expected, (problem, []))[1].append(row.id)
                continue
            if encoded.n_tokens > self.maximum_length or encoded.n_before_answer > self._room:
                too_long.append(encoded)
            else:
                kept.append(encoded)
            if self.fitting(row.fields) is not row.fields:
                shortened.append(row.id)
            progress()
        if unproved:
            raise EncodingError(problems=[_of_rows(problem, ids) for problem, ids in unproved.values()])
        if too_long and self.longer != "drop":
            raise self._refusal(too_long, len(kept) + len(too_long))
        ids = tuple(row.id for row in too_long)
        return tuple(kept), Lengths(self.maximum_length, self.longer, ids, ids, tuple(shortened))

    def fingerprint(self) -> str:
        """Changes with anything that changes ids: vocabulary, template, policy. Two templates never share a cache."""
        tokenizer = self.frame.tokenizer
        probe = [{"role": "system", "content": "s"}, {"role": "user", "content": "Grüße, 3 €"}]
        try:
            rendered: object = self.frame.prompt_ids(probe)
        except Exception as refused:  # a template may refuse a system turn: that too is part of what it is
            rendered = str(refused)
        parts = [
            sorted(tokenizer.get_vocab().items()),
            getattr(tokenizer, "chat_template", None),
            rendered,
            self.frame.turn_end_ids,
            [self.maximum_length, self.longer, self.reserve],
            [self.turns, self.tools, sorted(self.frame.options.items())],
        ]
        return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()

    def fitting(self, fields: dict[str, Any]) -> dict[str, Any]:
        """The fields with as many characters of the input as leave room; the same object where all fit.

        One character stays, or there would be no question. Characters are cut and not tokens: part of a character's
        bytes would come back as another character.
        """
        text = fields.get(self.input_field)
        if self.longer != "truncate" or not isinstance(text, str) or len(text) < 2:
            return fields
        if len(self._prompt_ids(fields)) <= self._room:
            return fields

        def cut(n_characters: int) -> dict[str, Any]:
            return {**fields, self.input_field: text[:n_characters]}

        n_fit = bisect_left(range(1, len(text)), True, key=lambda n: len(self._prompt_ids(cut(n))) > self._room)
        return cut(max(n_fit, 1))

    def _prompt_ids(self, fields: dict[str, Any]) -> tuple[int, ...]:
        messages, tools = self._asked(fields)
        return self.frame.prompt_ids(messages, tools, which=self.turns)

    def _asked(self, fields: dict[str, Any]) -> tuple[Sequence[Message], Tools]:
        task: Any = self.task
        return (task.request(fields), task.tools(fields)) if self.tools == "template" else (task.messages(fields), ())

    @property
    def _room(self) -> int:
        """What a prompt may take [tokens]."""
        return self.maximum_length - (self.reserve if self.longer == "truncate" else 0)

    def _refusal(self, too_long: Sequence[EncodedRow], n_rows: int) -> EncodingError:
        named = ", ".join(f"{row.id} ({row.n_tokens} tokens)" for row in too_long[:10])
        more = f" and {len(too_long) - 10} more" if len(too_long) > 10 else ""
        ways, kept_free, where = "raise encoding.maximum_length", "", ""
        if self.longer == "refuse":
            where = _told(cut(too_long, self.maximum_length))
            ways += ", or declare encoding.longer: drop (rows left out and counted) or truncate (input shortened)"
        elif self.longer == "truncate":
            ways += ", or lower evaluation.max_new_tokens, which a shortened prompt keeps free"
            kept_free = f", {self.reserve} of them kept free for the answer"
        return EncodingError(
            problems=[
                Problem(
                    expected=f"rows of at most {self.maximum_length} tokens{kept_free}, so that no answer is cut",
                    found=f"{len(too_long)} of {n_rows} rows do not fit: {named}{more}{where}",
                    where="encoding.maximum_length",
                    action=ways,
                )
            ]
        )


def _of_rows(problem: Problem, ids: Sequence[str]) -> Problem:
    """A problem that several rows have: shown for the first, with the names of the others."""
    named = ", ".join(ids[:10]) + (f" and {len(ids) - 10} more" if len(ids) > 10 else "")
    return replace(problem, found=f"{len(ids)} rows ({named}): {problem.found}")


def _told(cut: Cut) -> str:
    """Where rows would end if they were cut."""
    ways = ((cut.before, "would end before their answer"), (cut.inside, "within it"), (cut.end, "just before its end"))
    return "; cut there, " + ", ".join(f"{len(rows)} {where}" for rows, where in ways if rows) if cut.rows else ""
