"""A split becomes classes: one forward pass a batch, and the probability of each class."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import torch

from testigo.corpus import Row
from testigo.encoding import ClassEncoder, ImageEncoder, Labelled
from testigo.evaluation.prediction import Prediction

Answer = tuple[str, dict[str, float] | None, str]
"""The prompt's digest, the probabilities by class, and why the answer ended."""


def classify(
    model: Any,
    encoder: ClassEncoder | ImageEncoder,
    rows: Sequence[Row],
    *,
    batch_size: int,
    on_batch: Callable[[int], object] = lambda n_done: None,
) -> tuple[Prediction, ...]:
    """The likeliest class of each row and the probabilities of all; of equal ones the first.

    A text that is longer than the model can take has no answer, and counts as wrong.
    """
    encoded = [encoder.encode(row) for row in rows]
    most = encoder.maximum_length if isinstance(encoder, ClassEncoder) else 1
    order = sorted((k for k, row in enumerate(encoded) if row.n_tokens <= most), key=lambda k: (encoded[k].n_tokens, k))
    device = next(model.parameters()).device
    answers: dict[int, Answer] = {
        k: (_sha256(repr(row.ids).encode()), None, "length") for k, row in enumerate(encoded) if row.n_tokens > most
    }
    was_training = model.training
    model.eval()
    with torch.no_grad():
        for start in range(0, len(order), batch_size):
            chosen = order[start : start + batch_size]
            batch = encoder.lay_out([encoded[k] for k in chosen])
            logits = model(**batch.to(device).inputs).logits.double()  # (B, classes)
            shares = logits.softmax(-1).cpu().tolist()
            for place, k in enumerate(chosen):
                probabilities = dict(zip(encoder.task.labels, shares[place], strict=True))
                answers[k] = (_input_sha256(batch, place), probabilities, "class")
            on_batch(len(answers))
    model.train(was_training)
    return tuple(_prediction(row, encoder, *answers[k]) for k, row in enumerate(rows))


def _prediction(
    row: Row, encoder: ClassEncoder | ImageEncoder, asked: str, probabilities: dict[str, float] | None, stop: str
) -> Prediction:
    output = max(probabilities, key=probabilities.__getitem__) if probabilities else ""
    return Prediction(
        row=row.id,
        category=row.category,
        group=row.group,
        prompt_sha256=asked,
        output=output,
        token_ids=(),
        stop=stop,
        scores=encoder.task.score(row.fields, output),
        target=encoder.task.target(row.fields),
        probabilities=probabilities,
    )


def _input_sha256(batch: Labelled, place: int) -> str:
    """Of what one row's head read: its ids without padding, or its pixel values."""
    if "pixel_values" in batch.inputs:
        return _sha256(batch.inputs["pixel_values"][place].contiguous().numpy().tobytes())
    length = int(batch.inputs["attention_mask"][place].sum())
    return _sha256(repr(tuple(batch.inputs["input_ids"][place, :length].tolist())).encode())


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
