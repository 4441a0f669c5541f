"""Generation: a text becomes a text."""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

from testigo.tasks.task import Kind, input_problems, kind_of, no_label, prompt

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True)
class Generation:
    """A text becomes a text.

    `exact_match`: the same text, after Unicode NFC and with white space collapsed; case and punctuation count.
    `token_f1`: overlap of words, see `token_f1`.
    """

    input: str
    target_field: str
    system: str | None = None

    name: ClassVar[str] = "generation"
    labels: ClassVar[tuple[str, ...]] = ()
    metrics: ClassVar[Mapping[str, Kind]] = MappingProxyType({"exact_match": "binary", "token_f1": "bounded"})

    def problems(self, fields: Mapping[str, Any]) -> list[str]:
        """Missing or empty input or target, or one that is not text."""
        problems = input_problems(fields, self.input)
        if self.target_field not in fields:
            return [*problems, f"the field '{self.target_field}' (target) is missing"]
        value = fields[self.target_field]
        if not isinstance(value, str):
            problems.append(f"the field '{self.target_field}' (target) must be text, and is {kind_of(value)}")
        elif not value.strip():
            problems.append(f"the field '{self.target_field}' (target) is empty")
        return problems

    def messages(self, fields: Mapping[str, Any]) -> list[dict[str, Any]]:
        """System message, when the campaign gives one, then the input."""
        return prompt(self.system.strip() if self.system else None, str(fields[self.input]))

    def target(self, fields: Mapping[str, Any]) -> str:
        """The row's target, as it is after cleaning."""
        return str(fields[self.target_field])

    def label_of(self, fields: Mapping[str, Any]) -> int:
        """There are no classes."""
        raise no_label(self)

    def score(self, fields: Mapping[str, Any], output: str) -> dict[str, float]:
        """The two metrics of one output."""
        gold = self.target(fields)
        return {"exact_match": float(_plain(gold) == _plain(output)), "token_f1": token_f1(gold, output)}


def token_f1(gold: str, output: str) -> float:
    """F1 of the bags of words, after small letters and without punctuation and English articles.

    Source: Rajpurkar et al. 2016 (arXiv 1606.05250) and the evaluation script of SQuAD 2.0, which gives 1 when both
    texts hold no word and 0 when only one of them does.
    """
    expected, given = Counter(_words(gold)), Counter(_words(output))
    if not expected or not given:
        return float(expected == given)
    both = (expected & given).total()
    return 2 * both / (expected.total() + given.total())


def _words(text: str) -> list[str]:
    return _ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split()


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split())
