"""A split becomes predictions: prompt, output, token ids, why it stopped, and scores, row by row."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from testigo.corpus import Row
from testigo.encoding import Encoder
from testigo.evaluation.decode import decode_all


@dataclass(frozen=True)
class Prediction:
    """One row's output. `prompt_sha256` proves that baseline and tuned model were asked the same."""

    row: str
    category: str
    group: str
    prompt_sha256: str
    output: str
    token_ids: tuple[int, ...]
    stop: str
    scores: dict[str, float]


def predict(
    model: Any,
    encoder: Encoder,
    rows: Sequence[Row],
    *,
    max_new_tokens: int,
    batch_size: int,
    on_batch: Callable[[int], object] = lambda n_done: None,
) -> tuple[Prediction, ...]:
    """Greedy outputs of a split and their scores. Baseline and tuned model go through this one function."""
    prompts = [encoder.prompt_ids(row.fields) for row in rows]
    was_training = model.training
    model.eval()
    with torch.no_grad():
        answers = decode_all(
            model,
            prompts,
            stop_ids=encoder.frame.stop_ids,
            max_new_tokens=max_new_tokens,
            batch_size=batch_size,
            on_batch=on_batch,
        )
    model.train(was_training)
    predictions = []
    for row, prompt, answer in zip(rows, prompts, answers, strict=True):
        output = encoder.output_of(answer.token_ids, row.fields)
        predictions.append(
            Prediction(
                row=row.id,
                category=row.category,
                group=row.group,
                prompt_sha256=hashlib.sha256(json.dumps(prompt).encode()).hexdigest(),
                output=output,
                token_ids=answer.token_ids,
                stop=answer.stop,
                scores=encoder.task.score(row.fields, output),
            )
        )
    return tuple(predictions)


def lines(predictions: Sequence[Prediction]) -> str:
    """The predictions as JSON Lines."""
    return "".join(json.dumps(asdict(p), ensure_ascii=False) + "\n" for p in predictions)
