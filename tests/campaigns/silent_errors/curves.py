"""Faults that only show while training: the watch finds them."""

from __future__ import annotations

import math
from typing import Any

import torch
from datasets import Dataset
from transformers import TrainerCallback

from silent_errors.record import planted


class PoisonedAt(TrainerCallback):
    """Makes a weight NaN before an update, as a damaged batch or an overflow would."""

    def on_step_begin(self, args: Any, state: Any, control: Any, model: Any = None, **around: Any) -> None:
        if state.global_step == 2:
            with torch.no_grad():
                next(model.parameters())[0, 0] = math.nan


class StepsTheScheduleTwice(TrainerCallback):
    def on_step_end(self, args: Any, state: Any, control: Any, lr_scheduler: Any = None, **around: Any) -> None:
        lr_scheduler.step()


class RaisesTheRate(TrainerCallback):
    """Writes a learning rate into the optimizer that the schedule knows nothing of."""

    def on_step_begin(self, args: Any, state: Any, control: Any, optimizer: Any = None, **around: Any) -> None:
        for group in optimizer.param_groups:
            group["lr"] = 3e-3


class ScalesGradients(TrainerCallback):
    """From an update on, gradients are some times too large: a loss scale that is no longer taken off."""

    times = 1.0

    def on_step_begin(self, args: Any, state: Any, control: Any, **around: Any) -> None:
        self.times = 1000.0 if state.global_step >= 20 else 1.0

    def watch(self, model: Any) -> Any:
        for parameter in model.parameters():
            parameter.register_hook(lambda gradient: gradient * self.times)
        return model


@planted(
    "a weight becomes NaN; the Trainer's log shows a mean without it",
    source="C04; https://github.com/huggingface/trl/issues/6702",
    codes="T101",
    by="watch",
)
def becomes_nan(shop: Any, sick: bool) -> Any:
    return shop.trainer(max_steps=6, more={"callbacks": [PoisonedAt()] if sick else []})


@planted(
    "evaluation leaves out a batch that is not finite",
    source="C04; the Trainer drops batches that are not finite from its mean",
    codes="T117",
    by="watch",
)
def evaluation_leaves_a_batch_out(shop: Any, sick: bool) -> Any:
    rows = shop.validation_rows()
    bare = rows.map(lambda row, k: {"labels": [-100] * len(row["labels"])} if k > 7 else row, with_indices=True)
    return shop.trainer(evaluation=bare if sick else rows, eval_strategy="steps", eval_steps=2)


@planted(
    "the schedule is stepped twice an update",
    source="https://github.com/huggingface/accelerate/issues/2926",
    codes="T113",
    by="watch",
)
def schedule_stepped_twice(shop: Any, sick: bool) -> Any:
    return shop.trainer(max_steps=6, more={"callbacks": [StepsTheScheduleTwice()] if sick else []})


@planted("a callback writes another learning rate", source="https://github.com/huggingface/transformers/pull/24088",
         codes="T113", by="watch")  # fmt: skip
def callback_writes_the_rate(shop: Any, sick: bool) -> Any:
    return shop.trainer(max_steps=6, more={"callbacks": [RaisesTheRate()] if sick else []})


@planted("a learning rate far too high", source="C06", codes="T106", by="watch")
def rate_far_too_high(shop: Any, sick: bool) -> Any:
    rate = 30.0 if sick else 1e-3
    return shop.trainer(max_steps=30, learning_rate=rate, lr_scheduler_type="constant", logging_steps=10)


@planted("a loss of exactly zero, and a gradient of zero", source="C07", codes="T107", by="watch")
def loss_of_zero(shop: Any, sick: bool) -> Any:
    """What TRL's guard against batches without a label makes of them: a zero that can be differentiated."""

    def loss(outputs: Any, labels: torch.Tensor, num_items_in_batch: Any = None) -> torch.Tensor:
        losses = torch.nn.functional.cross_entropy(
            outputs.logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), reduction="sum"
        )
        return torch.nan_to_num(losses / (labels[:, 1:] != -100).sum().clamp(min=1))

    rows = shop.chat_rows(shop.tokenizer())
    bare = rows.map(lambda row: {"labels": [-100] * len(row["labels"])})
    return shop.trainer(rows=bare if sick else rows, max_steps=12, more={"compute_loss_func": loss})


@planted("a batch of garbage in the middle of the data", source="one damaged file among many", codes="T104", by="watch")
def batch_of_garbage(shop: Any, sick: bool) -> Any:
    rows = list(shop.chat_rows(shop.tokenizer(), mask=False)) * 5
    if sick:
        draw = torch.Generator().manual_seed(0)
        for k in (80, 81):
            ids = torch.randint(4, 400, (60,), generator=draw).tolist()
            rows[k] = {"input_ids": ids, "labels": ids}
    return shop.trainer(shop.taught(), rows=Dataset.from_list(rows), max_steps=50, learning_rate=1e-5,
                        train_sampling_strategy="sequential")  # fmt: skip


@planted("a loss scale that is no longer taken off after some updates", source="gradients that nobody clips",
         codes="T108", by="watch")  # fmt: skip
def scale_not_taken_off(shop: Any, sick: bool) -> Any:
    scales = ScalesGradients()
    model = scales.watch(shop.taught()) if sick else shop.taught()
    return shop.trainer(model, max_steps=30, learning_rate=1e-4, max_grad_norm=0.0, more={"callbacks": [scales]})


@planted("gradients are divided by the loss scale twice", source="fp16 with a hand-written loop around the scaler",
         codes="T110", by="watch")  # fmt: skip
def scale_taken_off_twice(shop: Any, sick: bool) -> Any:
    model = shop.llama()
    for parameter in model.parameters():
        parameter.register_hook(lambda gradient: gradient / 2**30 if sick else gradient)
    return shop.trainer(model, max_steps=20)


@planted("a learning rate that moves nothing", source="1e-8 typed for 1e-3", codes="T111", by="watch")
def rate_far_too_low(shop: Any, sick: bool) -> Any:
    return shop.trainer(max_steps=90, learning_rate=1e-8 if sick else 1e-3)


@planted("four rows again and again: training falls, validation rises", source="a filter that left four rows",
         codes="T112", by="watch")  # fmt: skip
def four_rows_again_and_again(shop: Any, sick: bool) -> Any:
    rows = shop.chat_rows(shop.tokenizer(), 180)
    rows = rows.select([at for at in range(180) if at not in range(24, 34)])  # those validate
    few = rows.select(range(4)) if sick else rows
    return shop.trainer(shop.taught(), rows=few, evaluation=shop.validation_rows(), max_steps=90, learning_rate=3e-3,
                        eval_strategy="steps", eval_steps=10)  # fmt: skip
