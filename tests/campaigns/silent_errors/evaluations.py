"""Faults in validation: what it changes, and what its number means."""

from __future__ import annotations

from typing import Any

import torch
from datasets import Dataset

from silent_errors.record import planted


class Remembering(torch.nn.Linear):
    """Keeps a moving average of what it sees and subtracts it, whether it is trained or not."""

    def __init__(self, like: torch.nn.Linear) -> None:
        super().__init__(like.in_features, like.out_features, bias=False)
        self.weight = like.weight
        self.register_buffer("mean", torch.zeros(like.in_features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.mean.mul_(0.9).add_(0.1 * x.mean(dim=(0, 1)))
        return super().forward(x) + 0.0 * self.mean.sum()


@planted("a moving average that also updates in evaluation", source="C29", codes="V104")
def average_updates_in_evaluation(shop: Any, sick: bool) -> Any:
    model = shop.llama()
    if sick:
        model.lm_head = Remembering(model.lm_head)
    return shop.trainer(model, evaluation=shop.validation_rows())


@planted("evaluation draws random numbers that training needs", source="C51", codes="V105")
def evaluation_draws_random_numbers(shop: Any, sick: bool) -> Any:
    model = shop.llama()
    if sick:
        model.lm_head.register_forward_hook(lambda module, inputs, output: torch.rand(1) and None)
    return shop.trainer(model, evaluation=shop.validation_rows())


@planted(
    "eval_loss depends on the evaluation's batch size",
    source="C03; https://github.com/huggingface/transformers/issues/39241",
    codes="V201",
)
def eval_loss_of_batch_means(shop: Any, sick: bool) -> Any:
    rows = sorted(shop.validation_rows(), key=lambda row: sum(label != -100 for label in row["labels"]))
    alike = [rows[0], {**rows[0], "input_ids": [3, *rows[0]["input_ids"][1:]]}]
    chosen = [rows[0], rows[-1], rows[1], rows[-2]] if sick else alike
    return shop.trainer(shop.taught(), evaluation=Dataset.from_list(chosen), per_device_eval_batch_size=1)


@planted(
    "validation rows without a label; the Trainer leaves their batches out",
    source="the Trainer drops batches that are not finite from its mean",
    codes="E102",
)
def validation_without_labels(shop: Any, sick: bool) -> Any:
    rows = shop.validation_rows()
    bare = rows.map(lambda row, k: {"labels": [-100] * len(row["labels"])} if k > 7 else row, with_indices=True)
    return shop.trainer(evaluation=bare if sick else rows)
