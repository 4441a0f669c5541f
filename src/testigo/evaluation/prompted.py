"""The base with examples in its prompt: the baseline that costs no training."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from testigo.corpus import Row
from testigo.encoding import Encoder


def choose_examples(rows: Sequence[Row], n: int, seed: int) -> tuple[Row, ...]:
    """So many training rows, drawn by the seed: one of each category before a second of any."""
    shuffled = sorted(rows, key=lambda row: row.id)
    random.Random(seed).shuffle(shuffled)
    chosen: list[Row] = []
    while len(chosen) < min(n, len(shuffled)):
        seen: set[str] = set()
        for row in shuffled:
            if row not in chosen and row.category not in seen and len(chosen) < n:
                seen.add(row.category)
                chosen.append(row)
    return tuple(chosen)


def with_examples(encoder: Encoder, examples: Sequence[Row]) -> Callable[[dict[str, Any]], tuple[int, ...]]:
    """The prompt of a row after the examples, each as a turn of the user and the answer that is right."""
    turns = []
    for row in examples:
        *_, asked = encoder.task.messages(row.fields)
        turns += [asked, {"role": "assistant", "content": encoder.task.target(row.fields)}]

    def prompt_ids(fields: dict[str, Any]) -> tuple[int, ...]:
        *before, asked = encoder.task.messages(encoder.fitting(fields))
        return encoder.frame.prompt_ids([*before, *turns, asked])

    return prompt_ids
