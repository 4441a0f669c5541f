"""What a rental plan needs to know of this machine: seconds of a start, of a validation loss, of an answer.

The phases measure worst cases, since memory has none but those; time is a sum over ordinary rows, so it is measured
on a batch of ordinary ones.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from testigo.evaluation.predict import predict
from testigo.pilot.bench import Bench
from testigo.training.loss import split_loss
from testigo.training.optimizer import autocast


@dataclass(frozen=True)
class Speed:
    """Times [s] and the sizes that they belong to.

    `seconds_per_batch` is what a batch of answers takes beside its steps (the prompts), `seconds_per_step` one more
    token for a batch. `steps` are the tokens of the longest target of each batch, summed over the validation rows: how
    long the answers of a model are that has learned. A class head answers without steps.
    """

    start_seconds: float
    seconds_per_loss_token: float
    loss_tokens: int
    seconds_per_batch: float
    seconds_per_step: float
    batches: int
    steps: int

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def collect(bench: Bench, *, start_seconds: float) -> Speed:
    """Time one ordinary batch of the validation loss and of the answers. No weight is touched, nothing is drawn."""
    rows, size = sorted(bench.session.validation_rows, key=_length), bench.settings.evaluation.batch_size
    middle = rows[max(0, (len(rows) - size) // 2) :][:size]
    began = time.perf_counter()
    precision = autocast(bench.settings.model.precision, bench.session.device)
    split_loss(bench.model, [bench.session.lay_out(middle)], autocast=precision)
    loss_seconds = time.perf_counter() - began
    short, _ = _answer(bench, middle, limit=1)
    long, steps = short, 1
    if not bench.has_head:
        long, steps = _answer(bench, middle, limit=min(bench.settings.evaluation.max_new_tokens, _STEPS))
    per_step = max(0.0, (long - short) / (steps - 1)) if steps > 1 else 0.0
    return Speed(
        start_seconds=start_seconds,
        seconds_per_loss_token=loss_seconds / max(sum(map(_length, middle)), 1),
        loss_tokens=sum(map(_length, rows)),
        seconds_per_batch=max(0.0, short - per_step),
        seconds_per_step=per_step,
        batches=-(-len(rows) // size),
        steps=0 if bench.has_head else _steps(bench, bench.session.validation_rows, size),
    )


_STEPS = 24  # long enough to tell a step from the prompts, short beside the pilot


def _answer(bench: Bench, rows: Sequence[Any], *, limit: int) -> tuple[float, int]:
    """Seconds of a batch of answers, and the tokens of the longest."""
    raw, began = bench.raw("validation", rows), time.perf_counter()
    answers = predict(bench.model, bench.encoder, raw, max_new_tokens=limit, batch_size=len(rows))
    seconds = time.perf_counter() - began
    return seconds, max((len(answer.token_ids) for answer in answers), default=0)


def _steps(bench: Bench, rows: Sequence[Any], size: int) -> int:
    """Tokens of the longest target of each batch; batches are made of prompts of one length, as they are answered."""
    limit = bench.settings.evaluation.max_new_tokens
    answers = [min(row.n_answer, limit) for row in sorted(rows, key=lambda row: row.n_tokens - row.n_answer)]
    return sum(max(answers[start : start + size]) for start in range(0, len(answers), size))


def _length(row: Any) -> int:
    return int(getattr(row, "n_tokens", 1))
