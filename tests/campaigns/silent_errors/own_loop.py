"""Faults planted into our own loop, its model, its rows or its files: the pilot of a campaign names them.

`build(patch)` plants the fault and returns the changes of the tiny campaign in which it shows; the healthy twin is the
same campaign without it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

import torch

from silent_errors.record import planted

EVEN = {"model.base": "path:even-llama"}
"""A base that guesses about evenly; one with wide random weights guesses worse than that and is no healthy base."""


def _after_loading(patch: Any, change: Callable[[Any], Any]) -> None:
    """Change what was loaded, in the pilot and in the runs that it makes."""
    prepare = import_module("testigo.training.prepare").prepare

    def changed(*arguments: Any, before_device: Any = None, **named: Any) -> Any:
        prepared = change(prepare(*arguments, **named))
        if before_device is not None:  # what is planted was loaded so, and not lost on the way to the device
            before_device(prepared.model)
        return prepared

    patch.setattr("testigo.pilot.worker.prepare", changed)
    patch.setattr("testigo.training.prepare.prepare", changed)


def _in_the_model(patch: Any, change: Callable[[Any], object]) -> None:
    def changed(prepared: Any) -> Any:
        change(prepared.model)
        return prepared

    _after_loading(patch, changed)


@planted("an optimizer over copies of the weights", source="C24", codes="U101", loop="own")
def own_optimizer_over_copies(patch: Any) -> dict[str, Any]:
    from testigo.training import optimizer

    build = optimizer.build_optimizer

    def over_copies(parameters: Any, **options: Any) -> Any:
        copies = {name: torch.nn.Parameter(p.detach().clone()) for name, p in parameters.items()}
        return build(copies, **options)

    patch.setattr(optimizer, "build_optimizer", over_copies)
    patch.setattr("testigo.training.prepare.build_optimizer", over_copies, raising=False)
    return EVEN


@planted(
    "the base is trained beside its adapter, and only the adapter would be saved",
    source="https://github.com/artidoro/qlora/issues/214",
    codes="B102",
    loop="own",
)
def own_base_trained_beside_adapter(patch: Any) -> dict[str, Any]:
    _in_the_model(patch, lambda model: model.get_input_embeddings().requires_grad_(True))
    return EVEN


@planted("a frozen layer that writes to its own weight", source="a buffer that was made a parameter", codes="U107",
         loop="own")  # fmt: skip
def own_frozen_layer_that_moves(patch: Any) -> dict[str, Any]:
    def slip(module: Any, inputs: Any) -> None:
        if module.training:
            with torch.no_grad():
                module.base_layer.weight.view(-1)[7] += 1e-6

    def hook(model: Any) -> None:
        model.get_submodule("base_model.model.model.layers.0.self_attn.q_proj").register_forward_pre_hook(slip)

    _in_the_model(patch, hook)
    return EVEN


@planted("dropout that stays active in evaluation", source="C29", codes="F112", loop="own")
def own_dropout_in_evaluation(patch: Any) -> dict[str, Any]:
    def noisy(module: Any, inputs: Any, output: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(output, 0.2, training=True)

    _in_the_model(
        patch, lambda model: model.get_submodule("base_model.model.model.layers.0.mlp").register_forward_hook(noisy)
    )
    return EVEN


@planted("a weight of the base is NaN; the Trainer logs a loss of 0.0", source="C04", codes="F101", loop="own")
def own_weight_that_is_nan(patch: Any) -> dict[str, Any]:
    def poison(model: Any) -> None:
        with torch.no_grad():
            model.get_input_embeddings().weight[:, 0] = math.nan

    _in_the_model(patch, poison)
    return EVEN


@planted("gradients are never emptied", source="C27", codes="B110", loop="own")
def own_gradients_never_emptied(patch: Any) -> dict[str, Any]:
    patch.setattr(torch.optim.Optimizer, "zero_grad", lambda self, set_to_none=True: None)
    return EVEN


@planted(
    "a mean of means: the model's forward takes no further keywords",
    source="C01; https://github.com/huggingface/blog/pull/2414",
    codes="B108",
    loop="own",
)
def own_mean_of_means(patch: Any) -> dict[str, Any]:
    from testigo.training import loop

    real = loop.token_losses

    def as_means(model: Any, batch: Any, *others: Any) -> Any:
        losses = real(model, batch, *others)
        return losses.mean().expand(len(losses)) * (10.0 / len(losses))

    patch.setattr(loop, "token_losses", as_means)
    return EVEN


@planted(
    "flattened rows that see their neighbours",
    source="C20; https://github.com/axolotl-ai-cloud/axolotl/pull/3796",
    codes="F104",
    loop="own",
)
def own_neighbours_seen(patch: Any) -> dict[str, Any]:
    def leaking(until: torch.Tensor, n_before: int) -> torch.Tensor:
        return torch.ones(len(until), n_before + len(until)).tril(n_before).bool()[None, None]

    patch.setattr(import_module("testigo.encoding.pack"), "_seen", leaking)
    return EVEN


def _in_the_rows(patch: Any, change: Callable[[Any], Any]) -> None:
    encoder = import_module("testigo.encoding.encoder").Encoder
    real = encoder.encode_all

    def changed(self: Any, rows: Any, *others: Any, **named: Any) -> Any:
        encoded, *rest = real(self, rows, *others, **named)
        return type(encoded)(change(row) for row in encoded), *rest

    patch.setattr(encoder, "encode_all", changed)
    patch.setattr("testigo.training.prepare.stored", lambda folder, key, make: tuple(make()))  # not those of before


@planted("no row ends with the token that ends an answer", source="C11; https://github.com/unslothai/unsloth/issues/419",
         codes="E107", loop="own")  # fmt: skip
def own_answers_without_end(patch: Any) -> dict[str, Any]:
    _in_the_rows(patch, lambda row: replace(row, ids=row.ids[:-2], spans=((row.n_prompt, len(row.ids) - 2),)))
    return EVEN


@planted("a resume that forgets the optimizer's moments", source="C37", codes="R105", loop="own")
def own_resume_forgets_the_moments(patch: Any) -> dict[str, Any]:
    from testigo.training import checkpoint

    restore = checkpoint.restore

    def forgetful(kept: Any, parameters: Any, optimizer: Any, *others: Any, **named: Any) -> Any:
        result = restore(kept, parameters, optimizer, *others, **named)
        optimizer.state.clear()
        return result

    patch.setattr(checkpoint, "restore", forgetful)
    return EVEN


@planted(
    "an export that holds a fresh adapter: it answers as the base does", source="C39", codes="X102 X103", loop="own"
)
def own_export_of_a_fresh_adapter(patch: Any) -> dict[str, Any]:
    from testigo.model import export

    save = export._save

    def fresh(model: Any, *others: Any, **named: Any) -> Any:
        kept = {name: p.detach().clone() for name, p in model.named_parameters() if "lora_B" in name}
        parameters = dict(model.named_parameters())
        with torch.no_grad():
            for name in kept:
                parameters[name].zero_()
            result = save(model, *others, **named)
            for name, value in kept.items():
                parameters[name].copy_(value)
        return result

    patch.setattr(export, "_save", fresh)
    return EVEN


CURVES_ALONE = {**EVEN, "evaluation.samples": 0, "training.updates": 14, "training.validate_every": 7}
"""The outputs of a base that knows nothing are no sign of anything."""


@planted(
    "a weight becomes NaN; the Trainer's log shows a mean without it",
    source="C04; https://github.com/huggingface/trl/issues/6702",
    codes="T101",
    by="watch",
    loop="own",
)
def own_becomes_nan(patch: Any) -> dict[str, Any]:
    session = import_module("testigo.training.loop").Session
    step = session.step

    def poisoned(self: Any, update: int) -> Any:
        if update == 3:
            with torch.no_grad():
                next(iter(self.parameters.values())).view(-1)[0] = math.nan
        return step(self, update)

    patch.setattr(session, "step", poisoned)
    return CURVES_ALONE


@planted("gradients of the wrong sign", source="a hook that was left in", codes="T106", by="watch", loop="own")
def own_gradients_of_the_wrong_sign(patch: Any) -> dict[str, Any]:
    def turn(model: Any) -> None:
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.register_hook(lambda gradient: -gradient)

    _in_the_model(patch, turn)
    return CURVES_ALONE


@planted("a row of garbage among the rows", source="one damaged row", codes="T104", by="watch", loop="own")
def own_row_of_garbage(patch: Any) -> dict[str, Any]:
    def damage(row: Any) -> Any:
        if row.id != "r04":
            return row
        draw = random.Random(0)
        ids = (*row.ids[: row.n_prompt], *(draw.randrange(4, 390) for _ in range(30)), *row.ids[-2:])
        return replace(row, ids=ids, spans=((row.n_prompt, len(ids)),))

    _in_the_rows(patch, damage)
    learning = {"training.updates": 60, "training.learning_rate": 1e-2, "training.schedule": {"kind": "constant"}}
    return {**CURVES_ALONE, **learning, "model.adapter": {"method": "full"}, "training.validate_every": 30}


@planted("a learning rate far too high", source="C06", codes="O101", by="watch", loop="own")
def own_rate_far_too_high(patch: Any) -> dict[str, Any]:
    """The loss still falls; every row has the same answer, which does not end."""
    from testigo.training import optimizer

    planned = optimizer.learning_rate_at
    patch.setattr(optimizer, "learning_rate_at", lambda *update, **settings: 100 * planned(*update, **settings))
    return {**EVEN, "training.clip": None}
