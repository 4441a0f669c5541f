"""What a rental plan needs to know of this machine: seconds of a start, of a validation loss, of an answer.

The phases measure worst cases, since memory has none but those; time is a sum over ordinary rows, so it is measured
on a batch of ordinary ones.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from testigo.encoding import EncodedRow, common_prefix
from testigo.evaluation.predict import predict
from testigo.model.layout import Groups, size_of
from testigo.pilot.bench import Bench
from testigo.training.loss import split_loss
from testigo.training.optimizer import autocast


@dataclass(frozen=True)
class Speed:
    """Times [s] and the sizes that they belong to.

    `seconds_per_prompt_token` is what the prompts of a batch take for each token of them that is read (for each row,
    under a class head), `seconds_per_step` one more token for a batch. Loss and prompt tokens are those of the whole
    split; what its rows begin with alike counts once, as it is computed. `steps` are those of answers as long as the
    targets, each place taken anew at once: how long the answers of a model are that has learned. A class head answers
    without steps.
    """

    start_seconds: float
    seconds_per_loss_token: float
    loss_tokens: int
    seconds_per_prompt_token: float
    prompt_tokens: int
    seconds_per_step: float
    steps: int

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def collect(bench: Bench, *, start_seconds: float) -> Speed:
    """Time one ordinary batch of the validation loss and of the answers. No weight is touched, nothing is drawn."""
    session, size = bench.session, bench.settings.evaluation.batch_size
    rows = sorted(session.validation_rows, key=_length)
    middle = rows[max(0, (len(rows) - size) // 2) :][:size]
    began = time.perf_counter()
    precision = autocast(bench.settings.model.precision, session.device)
    split_loss(bench.model, [session.lay_out(middle)], autocast=precision)
    loss_seconds = time.perf_counter() - began
    short, _ = _answer(bench, middle, limit=1)
    long, steps = short, 1
    if not bench.has_head:
        long, steps = _answer(bench, middle, limit=min(bench.settings.evaluation.max_new_tokens, _STEPS))
    per_step = max(0.0, (long - short) / (steps - 1)) if steps > 1 else 0.0
    return Speed(
        start_seconds=start_seconds,
        seconds_per_loss_token=loss_seconds / max(_computed(Groups([middle])), 1),
        loss_tokens=_computed(session.layout.of_validation(rows, size)),
        seconds_per_prompt_token=max(0.0, short - per_step) / max(prompt_tokens(middle), 1),
        prompt_tokens=prompt_tokens(rows),
        seconds_per_step=per_step,
        steps=0 if bench.has_head else steps_of(_answers(bench, session.validation_rows), size),
    )


_STEPS = 24  # long enough to tell a step from the prompts, short beside the pilot


def _answer(bench: Bench, rows: Sequence[Any], *, limit: int) -> tuple[float, int]:
    """Seconds of a batch of answers, and the tokens of the longest."""
    raw, began = bench.raw("validation", rows), time.perf_counter()
    answers = predict(bench.model, bench.encoder, raw, max_new_tokens=limit, batch_size=len(rows))
    seconds = time.perf_counter() - began
    return seconds, max((len(answer.token_ids) for answer in answers), default=0)


def _answers(bench: Bench, rows: Sequence[Any]) -> list[int]:
    """Tokens of each row's target, in the order in which the rows are answered."""
    limit = bench.settings.evaluation.max_new_tokens
    return [min(row.n_answer, limit) for row in sorted(rows, key=lambda row: row.n_tokens - row.n_answer)]


def steps_of(answers: Sequence[int], size: int) -> int:
    """Steps until answers of these lengths are all written, where `size` are written at once and a place that becomes
    free is taken by the next."""
    places = [0] * size
    for n in answers:
        heapq.heappush(places, heapq.heappop(places) + n)
    return max(places, default=0)


def prompt_tokens(rows: Sequence[Any]) -> int:
    """Tokens that are read before answers begin, what all prompts begin with once; of a class head, its rows."""
    if not all(isinstance(row, EncodedRow) for row in rows) or not rows:
        return len(rows)
    prompts = [row.ids[: row.n_tokens - row.n_answer] for row in rows]
    shared = max(min(common_prefix(prompts), min(map(len, prompts)) - 1), 0)
    return shared + sum(len(prompt) - shared for prompt in prompts)


def _computed(groups: Groups) -> int:
    """Tokens of a split as they are laid out; where rows are padded, padding is computed too."""
    if all(isinstance(row, EncodedRow) for own in groups.rows for row in own):
        return size_of(groups)
    return sum(len(own) * max(map(_length, own), default=0) for own in groups.rows)


def _length(row: Any) -> int:
    return int(getattr(row, "n_tokens", 1))
