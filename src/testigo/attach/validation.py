"""Validation: evaluation mode, repeatable, without a trace in weights or random numbers; and what `eval_loss` means."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from testigo.attach.bench import Bench, longest
from testigo.attach.keeping import random_state_digest
from testigo.attach.rows import IGNORED
from testigo.gates.validation import ValidationEvidence

#: Rows that are evaluated; the rest is like them.
MOST_EVALUATED = 32


@dataclass(frozen=True)
class EvalLoss:
    """The validation loss in two ways [nats per token], over the same rows."""

    of_batches: float
    """Mean of the losses of batches, as the Trainer reports it."""
    of_tokens: float
    """Mean over tokens."""


def worst_case(bench: Bench) -> None:
    """The longest batch of each data set."""
    for split in bench.evaluation:
        rows = longest(split)
        if not rows:
            continue
        bench.evaluated(split.together(rows))
        bench.run.update(row.id for row in rows)


def collect(bench: Bench) -> tuple[ValidationEvidence, EvalLoss | None]:
    """The Trainer's own evaluation step over the first rows of the first validation set."""
    split = next(split for split in bench.evaluation if split.rows)
    rows = split.rows[:MOST_EVALUATED]
    groups = [rows[k : k + split.batch_size] for k in range(0, len(rows), split.batch_size)]
    batches = [split.together(group) for group in groups]  # once, since some collators draw random numbers
    modes: list[bool] = []
    hooks = [
        m.register_forward_pre_hook(lambda module, _: modes.append(module.training)) for m in bench.model.modules()
    ]
    before, state = bench.now(), random_state_digest()
    losses = [bench.evaluated(batch) for batch in batches]
    drawn = random_state_digest() != state
    for hook in hooks:
        hook.remove()
    again = [bench.evaluated(batch) for batch in batches]
    counts = [_n_labels(batch, bench.shift) for batch in batches]
    total = sum(counts)
    of_tokens = sum(loss * n for loss, n in zip(losses, counts, strict=True) if n) / total if total else math.nan
    of_batches = sum(losses) / len(losses)
    evidence = ValidationEvidence(
        precision=bench.precision,
        training_mode_during=any(modes),
        losses_by_batch={str(split.batch_size): of_tokens if total else of_batches},
        twice_difference=_apart(losses, again),
        weights_changed=bench.now() != before,
        random_state_changed=drawn,
    )
    if not total or not bench.is_cross_entropy or not math.isfinite(of_tokens + of_batches):
        return evidence, None
    return evidence, EvalLoss(of_batches, of_tokens)


def _n_labels(batch: Mapping[str, Any], shift: int) -> int:
    labels = batch.get("labels")
    if not isinstance(labels, torch.Tensor) or labels.is_floating_point():
        return 0
    return int((labels[..., shift:] != IGNORED).sum())


def _apart(first: list[float], second: list[float]) -> float | None:
    """NaN is equal to NaN here: that it is not finite is another rule's matter."""
    pairs = [(a, b) for a, b in zip(first, second, strict=True) if math.isfinite(a) and math.isfinite(b)]
    return max((abs(a - b) for a, b in pairs), default=None)
