"""Backward: gradients where they belong; many microbatches give the gradient of the one big batch."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatch
from typing import Any

import torch

from testigo.attach.bench import Bench, enable_checkpointing, relative_error
from testigo.attach.keeping import random_states_kept
from testigo.attach.new_tokens import frozen_new_tokens
from testigo.gates.backward import BackwardEvidence
from testigo.model.tying import untied


def worst_case(bench: Bench) -> None:
    """One forward and backward pass of the longest microbatch, in training mode, for memory and for gradients."""
    bench.empty_gradients()
    bench.step([bench.train.together(bench.worst)], training=True)
    bench.run.update(row.id for row in bench.worst)


def collect(bench: Bench, declared: Sequence[str] | None) -> BackwardEvidence:
    """What has a gradient after the longest microbatch and a small sample; then equal gradients of equal rows."""
    trained = tuple(bench.trained)
    expected = declared_names(bench, declared)
    if not trained:
        return BackwardEvidence(precision=bench.precision, trained=(), declared=expected)
    exempt = _exempt(bench)
    together = bench.train.together(bench.sample)
    bench.step([together], training=True)  # on top of the longest microbatch
    real = bench.gradients()
    elsewhere = [n for n, p in bench.trainer.model.named_parameters() if p.grad is not None and n not in bench.trained]
    twice = _twice(bench, together)
    error, many, one = _accumulation(bench, together)
    evidence = BackwardEvidence(
        precision=bench.precision,
        trained=trained,
        declared=expected,
        with_gradient=tuple(real),
        nonzero_gradient=tuple(name for name, g in real.items() if bool((g != 0).any())),
        exempt=exempt,
        gradient_elsewhere=tuple(elsewhere),
        nonfinite=tuple(name for name, g in real.items() if not bool(torch.isfinite(g).all())),
        loss_accumulated=many,
        loss_one_batch=one,
        accumulation_error=error,
        gradient_twice_error=twice,
        checkpointing_error=_checkpointing(bench, together),
        new_tokens_frozen=frozen_new_tokens(bench),
        untied=untied(bench.trainer.model),
    )
    bench.trainer.model.zero_grad(set_to_none=True)
    return evidence


def declared_names(bench: Bench, patterns: Sequence[str] | None) -> tuple[str, ...] | None:
    """What should be trained: by the user's patterns, else by the adapter's settings; None where nothing says so."""
    names = [name for name, _ in bench.trainer.model.named_parameters()]
    if patterns is not None:
        return tuple(name for name in names if any(fnmatch(name, pattern) for pattern in patterns))
    settings = getattr(bench.trainer.model, "peft_config", None)
    active = getattr(bench.trainer.model, "active_adapter", None)
    if not isinstance(settings, dict) or not isinstance(active, str) or active not in settings:
        return None
    own = settings[active]
    if str(getattr(own.peft_type, "value", own.peft_type)) != "LORA" or own.bias != "none":
        return None
    if getattr(own, "trainable_token_indices", None) or getattr(own, "layer_replication", None):
        return None
    saved = set(own.modules_to_save or ())
    return tuple(name for name in names if _is_adapters(name.split("."), active, saved))


def _is_adapters(parts: list[str], active: str, saved: set[str]) -> bool:
    if active not in parts:
        return False
    return any(part.startswith("lora_") for part in parts) or ("modules_to_save" in parts and bool(saved & set(parts)))


def _exempt(bench: Bench) -> tuple[str, ...]:
    """LoRA's A, where its B is still zero."""
    parameters = dict(bench.trainer.model.named_parameters())
    exempt = []
    for name in bench.trained:
        for a, b in ((".lora_A.", ".lora_B."), (".lora_embedding_A.", ".lora_embedding_B.")):
            other = parameters.get(name.replace(a, b))
            if a in name and other is not None and not bool(other.detach().any()):
                exempt.append(name)
    return tuple(exempt)


def _twice(bench: Bench, batch: dict[str, Any]) -> float | None:
    """The same batch twice, with the loop's own emptying of gradients in between."""
    if not bench.is_repeatable:
        return None
    bench.trainer.model.zero_grad(set_to_none=True)
    for p in bench.trained.values():
        p.grad = None
    bench.step([batch], training=False)
    first = bench.gradients()
    bench.empty_gradients()
    bench.step([batch], training=False)
    return relative_error(bench.gradients(), first)


def _accumulation(bench: Bench, together: dict[str, Any]) -> tuple[float | None, float | None, float | None]:
    """Gradient and loss of the sample row by row against those of the sample at once."""
    apart = [bench.train.together([row]) for row in bench.sample]
    if bench.args.gradient_accumulation_steps < 2 or len(apart) < 2 or not bench.is_cross_entropy:
        return None, None, None
    if not bench.is_repeatable or not _same_rows(together, apart):
        return None, None, None
    results = []
    for batches in ([together], apart):
        for p in bench.trained.values():
            p.grad = None
        loss = bench.step(batches, training=False)
        results.append((bench.gradients(), loss))
    (one, loss_one), (many, loss_many) = results
    return relative_error(many, one), loss_many, loss_one


def _same_rows(together: dict[str, Any], apart: list[dict[str, Any]]) -> bool:
    """Whether the collator gives a row the same labels alone and among others; some draw them anew each time."""

    def labels(batch: dict[str, Any]) -> list[int]:
        value = batch.get("labels")
        flat = [] if value is None else value.reshape(-1).tolist()
        return [label for label in flat if label != -100]

    return labels(together) == [label for batch in apart for label in labels(batch)]


def _checkpointing(bench: Bench, batch: dict[str, Any]) -> float | None:
    """With and without activation checkpointing, in training mode, from the same random numbers."""
    model = bench.trainer.model
    if not bench.args.activation_checkpointing or not hasattr(model, "activation_checkpointing_disable"):
        return None
    results = []
    for checkpointing in (True, False):
        if not checkpointing:
            model.activation_checkpointing_disable()
        for p in bench.trained.values():
            p.grad = None
        with random_states_kept():
            bench.step([batch], training=True)
        results.append(bench.gradients())
    enable_checkpointing(bench.trainer)
    with_it, without = results
    return None if set(with_it) != set(without) else relative_error(with_it, without)
