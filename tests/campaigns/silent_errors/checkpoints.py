"""Faults in going on from a checkpoint of the Trainer. `args.resume_from_checkpoint` names it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from transformers import EarlyStoppingCallback, TrainerCallback

from silent_errors.record import planted

SAVED = {"save_strategy": "steps", "save_steps": 2, "save_total_limit": 4}


class InterruptedAt4(TrainerCallback):
    def on_step_end(self, args: Any, state: Any, control: Any, **around: Any) -> None:
        control.should_training_stop = state.global_step == 4


def _interrupted(shop: Any, *, more: dict[str, Any] | None = None, adapter: bool = True, **arguments: Any) -> Path:
    """A run that ended at update 4 of 8, with checkpoints 2 and 4."""
    model = shop.lora(shop.llama()) if adapter else shop.llama()
    trainer = shop.trainer(model, more=more, **{**SAVED, "max_steps": 8, **arguments})
    trainer.add_callback(InterruptedAt4())
    trainer.train()
    return shop.folder / "out"


def _going_on(shop: Any, checkpoint: Path, *, adapter: bool = True, **arguments: Any) -> Any:
    model = shop.lora(shop.llama()) if adapter else shop.llama()
    settings = {**SAVED, "max_steps": 8, "resume_from_checkpoint": str(checkpoint), **arguments}
    return shop.trainer(model, **settings)


@planted(
    "the adapter in the checkpoint has other names; it is resumed as zeros",
    source="C35; https://github.com/huggingface/peft/issues/2699",
    codes="R202",
)
def adapter_with_other_names(shop: Any, sick: bool) -> Any:
    checkpoint = _interrupted(shop) / "checkpoint-4"
    file = checkpoint / "adapter_model.safetensors"
    if sick:
        tensors = {name.replace("self_attn", "attention"): value for name, value in load_file(file).items()}
        save_file(tensors, file, metadata={"format": "pt"})
    return _going_on(shop, checkpoint)


@planted("the last checkpoint was half written", source="C36", codes="R201")
def half_written_checkpoint(shop: Any, sick: bool) -> Any:
    checkpoint = _interrupted(shop) / "checkpoint-4"
    if sick:  # what a process that was killed while saving leaves: the Trainer goes on without it
        (checkpoint / "optimizer.pt").unlink()
    return _going_on(shop, checkpoint)


@planted("another learning rate than the checkpoint's", source="C34", codes="R203")
def other_learning_rate(shop: Any, sick: bool) -> Any:
    checkpoint = _interrupted(shop) / "checkpoint-4"
    return _going_on(shop, checkpoint, learning_rate=5e-3 if sick else 1e-3)


@planted("another batch size than the checkpoint's", source="C34", codes="R203")
def other_batch_size(shop: Any, sick: bool) -> Any:
    checkpoint = _interrupted(shop) / "checkpoint-4"
    return _going_on(shop, checkpoint, per_device_train_batch_size=4 if sick else 2)


@planted("other rows than the checkpoint's", source="rows were added between a run and its resume", codes="R203")
def other_rows(shop: Any, sick: bool) -> Any:
    checkpoint = _interrupted(shop) / "checkpoint-4"
    rows = shop.chat_rows(shop.tokenizer(), 40 if sick else 24)
    return _going_on(shop, checkpoint, rows=rows)


@planted("the run was already done: the resume does nothing", source="C32", codes="R102")
def nothing_left_to_do(shop: Any, sick: bool) -> Any:
    checkpoint = _interrupted(shop, max_steps=4 if sick else 8) / "checkpoint-4"
    return _going_on(shop, checkpoint, max_steps=4 if sick else 8)


@planted("a moment of the optimizer is NaN in the checkpoint", source="C37", codes="R107")
def moment_that_is_nan(shop: Any, sick: bool) -> Any:
    checkpoint = _interrupted(shop) / "checkpoint-4"
    if sick:
        state = torch.load(checkpoint / "optimizer.pt", weights_only=True)
        next(iter(state["state"].values()))["exp_avg_sq"][0] = float("nan")
        torch.save(state, checkpoint / "optimizer.pt")
    return _going_on(shop, checkpoint)


@planted("early stopping counts from zero after a resume", source="C33", codes="R204")
def early_stopping_starts_anew(shop: Any, sick: bool) -> Any:
    evaluated = {"eval_strategy": "steps", "eval_steps": 2, "metric_for_best_model": "eval_loss",
                 "load_best_model_at_end": True, "evaluation": shop.validation_rows(),
                 "greater_is_better": True}  # fmt: skip
    checkpoint = _interrupted(shop, more={"callbacks": [EarlyStoppingCallback(3)]}, **evaluated) / "checkpoint-4"
    return _going_on(
        shop, checkpoint, more={"callbacks": [EarlyStoppingCallback(3)]}, **evaluated,
        restore_callback_states_from_checkpoint=not sick,
    )  # fmt: skip


@planted(
    "the order of rows comes from the global random state, so a resume has another one",
    source="C31; https://github.com/modelscope/ms-swift/issues/10050",
    codes="R205",
)
def order_from_the_global_state(shop: Any, sick: bool) -> Any:
    strategy = {"train_sampling_strategy": "group_by_length" if sick else "random"}
    checkpoint = _interrupted(shop, **strategy) / "checkpoint-4"
    return _going_on(shop, checkpoint, **strategy)
