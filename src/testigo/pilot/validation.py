"""Validation: evaluation mode, one loss whatever the batch, nothing changed by it, complete outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from testigo.evaluation.predict import Prediction, predict
from testigo.gates.overfit import OverfitEvidence
from testigo.gates.validation import ValidationEvidence
from testigo.model.digest import weights_sha256
from testigo.model.quantised import all_weights
from testigo.pilot.bench import Bench
from testigo.training.loss import split_loss
from testigo.training.optimizer import autocast

N_ROWS = 4


def with_learned(evidence: ValidationEvidence, learned: OverfitEvidence) -> ValidationEvidence:
    """Outputs after learning by heart count too: a base that was never taught to chat cannot know where turns end."""
    if None in (evidence.stopped, evidence.outputs_written, learned.answers, learned.answers_ended):
        return evidence
    return replace(
        evidence,
        stopped=evidence.stopped + learned.answers_ended,  # type: ignore[operator]
        outputs_generated=evidence.outputs_written + learned.answers,  # type: ignore[operator]
    )


def worst_case(bench: Bench) -> None:
    """The loss of the longest validation batch, for the counters."""
    precision = autocast(bench.settings.model.precision, bench.session.device)
    split_loss(bench.model, [bench.session.lay_out(bench.worst_validation)], autocast=precision)
    bench.run.update(row.id for row in bench.worst_validation)


def collect(bench: Bench) -> ValidationEvidence:
    """Loss of a few validation rows in several batch sizes, and whole generations on the longest prompts."""
    session, model, evaluation = bench.session, bench.model, bench.settings.evaluation
    rows = bench.worst_validation[-N_ROWS:]
    model.train()
    weights, state = weights_sha256(all_weights(model)), torch.get_rng_state()
    modes: list[bool] = []
    hook = model.register_forward_pre_hook(lambda module, _: modes.append(any(m.training for m in module.modules())))

    def loss(size: int) -> float:
        packs = [session.lay_out(rows[start : start + size]) for start in range(0, len(rows), size)]
        precision = autocast(bench.settings.model.precision, session.device)
        return split_loss(model, packs, autocast=precision).nats_per_token

    losses = {str(size): loss(size) for size in (1, 2, len(rows))}
    again = loss(len(rows))
    hook.remove()
    longest = bench.worst_validation  # a whole batch: its cache is what memory must hold
    predictions = predict(
        model,
        bench.encoder,
        bench.raw("validation", longest),
        max_new_tokens=evaluation.max_new_tokens,
        batch_size=evaluation.batch_size,
    )
    return replace(
        _of_texts(bench, predictions),
        precision=bench.settings.model.precision,
        training_mode_during=any(modes),
        losses_by_batch=losses,
        twice_difference=abs(again - losses[str(len(rows))]),
        weights_changed=weights_sha256(all_weights(model)) != weights,
        random_state_changed=not torch.equal(state, torch.get_rng_state()),
        outputs_expected=len(longest),
        outputs_written=len(predictions),
    )


def _of_texts(bench: Bench, predictions: Sequence[Prediction]) -> ValidationEvidence:
    """What only texts have: a length, and an end of their own."""
    if bench.has_head:
        return ValidationEvidence()
    every: list[Any] = [*bench.session.rows, *bench.session.validation_rows]
    return ValidationEvidence(
        empty_outputs=tuple(p.row for p in predictions if not p.token_ids),
        longest_generated=max(len(p.token_ids) for p in predictions),
        max_new_tokens=bench.settings.evaluation.max_new_tokens,
        stopped=sum(p.stop == "end" for p in predictions),
        target_longest_tokens=max(row.n_answer for row in every),
    )
