"""A text becomes what a class head reads; and what happens to texts that are too long."""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from testigo.corpus import Row
from testigo.encoding.classes import Labelled, LabelledRow, number_of, pad_labelled
from testigo.encoding.encoder import Lengths
from testigo.errors import EncodingError, Problem
from testigo.tasks import Task


@dataclass(frozen=True)
class ClassEncoder:
    """Texts to ids by the tokenizer's own marks (`[CLS]`, `[SEP]` and the like), one task and one length policy.

    Attributes
    ----------
    maximum_length
        The whole text with its marks [tokens].
    longer
        `refuse` names every row that is too long, `drop` leaves it out and counts it, `truncate` shortens the text.
    """

    tokenizer: Any
    task: Task
    maximum_length: int
    longer: Literal["refuse", "drop", "truncate"] = "refuse"
    pad_id: int = 0

    reserve: ClassVar[int] = 0

    def prompt_ids(self, fields: dict[str, Any]) -> tuple[int, ...]:
        """What the head reads of a row, in training and in evaluation."""
        return self._ids(self._shortened(self._text(fields)))

    def fitting(self, fields: dict[str, Any]) -> dict[str, Any]:
        """The fields themselves when their text is read whole, others when the policy shortens it."""
        text = self._text(fields)
        kept = self._shortened(text)
        return fields if kept == text else {**fields, getattr(self.task, "input", "text"): kept}

    def _shortened(self, text: str) -> str:
        if self.longer != "truncate" or len(self._ids(text)) <= self.maximum_length:
            return text
        fit = bisect_left(range(1, len(text)), True, key=lambda n: len(self._ids(text[:n])) > self.maximum_length)
        return text[: max(fit, 1)]

    def encode(self, row: Row) -> LabelledRow:
        """One row whole, whatever its length."""
        return LabelledRow(row.id, row.category, number_of(self.task, row.fields), self.prompt_ids(row.fields))

    def encode_all(
        self, rows: Iterable[Row], *, progress: Callable[[], object] = lambda: None
    ) -> tuple[tuple[LabelledRow, ...], Lengths]:
        """Every row of a split under the length policy.

        Raises
        ------
        EncodingError
            Under `refuse`, when rows are too long; the error names up to ten rows and counts all.
        """
        kept: list[LabelledRow] = []
        too_long: list[tuple[str, int]] = []
        shortened: list[str] = []
        for row in rows:
            encoded = self.encode(row)
            if encoded.n_tokens > self.maximum_length:
                too_long.append((row.id, encoded.n_tokens))
            else:
                kept.append(encoded)
            if self.fitting(row.fields) is not row.fields:
                shortened.append(row.id)
            progress()
        if too_long and self.longer != "drop":
            raise self._refusal(too_long, len(kept) + len(too_long))
        ids = tuple(row_id for row_id, _ in too_long)
        return tuple(kept), Lengths(self.maximum_length, self.longer, ids, ids, tuple(shortened))

    def lay_out(self, rows: Sequence[LabelledRow]) -> Labelled:
        """A batch of rows."""
        return pad_labelled(rows, pad_id=self.pad_id)

    def fingerprint(self) -> str:
        """Changes with anything that changes ids: vocabulary, marks, policy, classes."""
        tokenizer = self.tokenizer
        parts = [sorted(tokenizer.get_vocab().items()), self._ids("Grüße, 3 €"), self.maximum_length, self.longer,
                 self.task.labels]  # fmt: skip
        return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()

    def _text(self, fields: dict[str, Any]) -> str:
        return str(self.task.messages(fields)[-1]["content"])

    def _ids(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer(text)["input_ids"])

    def _refusal(self, too_long: Sequence[tuple[str, int]], n_rows: int) -> EncodingError:
        named = ", ".join(f"{row_id} ({n} tokens)" for row_id, n in too_long[:10])
        more = f" and {len(too_long) - 10} more" if len(too_long) > 10 else ""
        ways = "raise encoding.maximum_length where the base takes more, or declare encoding.longer: "
        return EncodingError(
            problems=[
                Problem(
                    expected=f"rows of at most {self.maximum_length} tokens",
                    found=f"{len(too_long)} of {n_rows} rows do not fit: {named}{more}",
                    where="encoding.maximum_length",
                    action=ways + "truncate (texts shortened at their end) or drop (rows left out and counted)",
                )
            ]
        )
