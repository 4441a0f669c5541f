"""A split becomes predictions, row by row: texts that are written, or classes that a head chooses."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any

import torch

from testigo.corpus import Row
from testigo.encoding import AnyEncoder, Encoder
from testigo.evaluation.classify import classify
from testigo.evaluation.decode import decode_all
from testigo.evaluation.prediction import Prediction, lines
from testigo.tasks import Classification, Task

__all__ = ["Prediction", "lines", "predict"]


def predict(
    model: Any,
    encoder: AnyEncoder,
    rows: Sequence[Row],
    *,
    max_new_tokens: int,
    batch_size: int,
    on_batch: Callable[[int], object] = lambda n_done: None,
    agree: Callable[[torch.Tensor], torch.Tensor] = lambda tokens: tokens,
    prompt_ids: Callable[[dict[str, Any]], tuple[int, ...]] | None = None,
) -> tuple[Prediction, ...]:
    """Outputs of a split and their scores. Baseline and tuned model go through this one function.

    Parameters
    ----------
    agree
        That of `decode_all`.
    prompt_ids
        Another prompt of a row than the encoder's own.
    """
    if not isinstance(encoder, Encoder):
        return classify(model, encoder, rows, batch_size=batch_size, on_batch=on_batch)
    prompts = [(prompt_ids or encoder.prompt_ids)(row.fields) for row in rows]
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
            agree=agree,
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
                target=encoder.task.target(row.fields),
                answer=_class_in(encoder.task, row, output),
            )
        )
    return tuple(predictions)


def _class_in(task: Task, row: Row, output: str) -> str | None:
    """The class that a written output names, empty where it names none; None where the task has no classes."""
    if not isinstance(task, Classification):
        return None
    return task.class_of(output, row.fields) or ""
