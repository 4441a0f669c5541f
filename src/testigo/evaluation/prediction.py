"""One row's output, and a file of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

LOSSES = "beside.json"
"""The file of losses of general text, and of targets without their inputs, beside an evaluation's outputs."""


@dataclass(frozen=True)
class Prediction:
    """One row's output.

    Attributes
    ----------
    prompt_sha256
        Of what the model was given: the proof that baseline and tuned model were asked the same.
    output
        The text that was written, or the name of the class that a head chose.
    stop
        `end` or `length` of a text; `class` of a head.
    target
        The exact text or class that was expected.
    probabilities
        Of a head: class -> probability, in the head's order. None where a text was written.
    answer
        Of a written class: the class that the output names, empty where it names none. None for all else.
    """

    row: str
    category: str
    group: str
    prompt_sha256: str
    output: str
    token_ids: tuple[int, ...]
    stop: str
    scores: dict[str, float]
    target: str = ""
    probabilities: dict[str, float] | None = None
    answer: str | None = None


def lines(predictions: Sequence[Prediction]) -> str:
    """The predictions as JSON Lines."""
    return "".join(json.dumps(_plain(prediction), ensure_ascii=False) + "\n" for prediction in predictions)


def _plain(prediction: Prediction) -> dict[str, object]:
    plain = asdict(prediction)
    for name in ("probabilities", "answer"):
        if plain[name] is None:
            del plain[name]
    return plain


def twice_name(split: str, n: int) -> str:
    """The file of rows that the base answered a second time."""
    return f"{split}.twice-{n}.jsonl"


def prompted_name(split: str, n: int) -> str:
    """The file of what the base answered with examples in its prompt."""
    return f"{split}.prompted-{n}.jsonl"


def guard_name(name: str, digest: str) -> str:
    """The file of a guard task's answers; other rows have another one."""
    return f"guard-{name}-{digest[:10]}.jsonl"
