"""A training after the pilot is the training without it, bit for bit, and nothing else is touched either."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import DataCollatorForLanguageModeling, Trainer, get_cosine_schedule_with_warmup

import testigo


def full(shop: Any) -> Trainer:
    return shop.trainer(
        gradient_accumulation_steps=2, evaluation=shop.validation_rows(), eval_strategy="steps", eval_steps=2
    )


def with_dropout(shop: Any) -> Trainer:
    return shop.trainer(shop.gpt2(), max_steps=6, warmup_steps=2, lr_scheduler_type="cosine")


def with_lora(shop: Any) -> Trainer:
    return shop.trainer(shop.lora(shop.llama(), lora_dropout=0.1), activation_checkpointing=True)


def with_own_optimizer(shop: Any) -> Trainer:
    """An optimizer that has already taken a step, with a schedule of its own."""
    model = shop.llama()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = get_cosine_schedule_with_warmup(optimizer, 1, 4)
    model(input_ids=torch.tensor([[3, 4, 5]]), labels=torch.tensor([[3, 4, 5]])).loss.backward()
    optimizer.step()
    return shop.trainer(model, optimizers=(optimizer, scheduler))


def with_drawn_masks(shop: Any) -> Trainer:
    """The collator draws random numbers, from a generator that it makes at its first call."""
    tokenizer = shop.tokenizer()
    tokenizer.mask_token = "<|user|>"
    collator = DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.3, seed=5)
    rows = shop.chat_rows(tokenizer).remove_columns("labels")
    return shop.trainer(tokenizer=tokenizer, rows=rows, collator=collator)


def with_grouped_lengths(shop: Any) -> Trainer:
    return shop.trainer(train_sampling_strategy="group_by_length", num_train_epochs=1, max_steps=-1)


class Counting(torch.nn.Linear):
    """Keeps a moving average of what it sees, and writes to its own frozen weight, as some layers do."""

    def __init__(self) -> None:
        super().__init__(32, 400, bias=False)
        self.register_buffer("seen", torch.zeros(()))
        self.weight.requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.seen += x.abs().mean()
            self.weight += 1e-3 * self.seen
        return super().forward(x.clone())


def with_a_layer_that_remembers(shop: Any) -> Trainer:
    model = shop.llama()
    torch.manual_seed(3)
    model.lm_head = Counting()
    return shop.trainer(model)


BUILDS = [
    full,
    with_dropout,
    with_lora,
    with_own_optimizer,
    with_drawn_masks,
    with_grouped_lengths,
    with_a_layer_that_remembers,
]


def trained(trainer: Trainer) -> tuple[list[float], dict[str, torch.Tensor]]:
    trainer.train()
    losses = [entry[name] for entry in trainer.state.log_history for name in ("loss", "eval_loss") if name in entry]
    return losses, {name: p.detach().clone() for name, p in trainer.model.named_parameters()}


@pytest.mark.parametrize("build", BUILDS, ids=lambda build: build.__name__)
def test_a_training_after_the_pilot_is_the_training_without_it(build: Callable[[Any], Trainer], shop: Any) -> None:
    torch.manual_seed(11)
    losses, weights = trained(build(shop))
    torch.manual_seed(11)
    after = build(shop)
    report = testigo.pilot(after)
    losses_after, weights_after = trained(after)

    assert report.phases[3]["verdict"] in ("passed", "failed"), report.table()
    assert report.ok == (build is not with_a_layer_that_remembers), report.table()
    assert losses_after == losses
    assert all(torch.equal(weights_after[name], weights[name]) for name in weights)


def test_the_pilot_changes_nothing_that_can_be_looked_at(shop: Any, tmp_path: Path) -> None:
    trainer = with_own_optimizer(shop)
    trainer.model.train()
    trainer.model.lm_head.eval()
    trainer.model.lm_head.weight.grad = torch.ones_like(trainer.model.lm_head.weight)
    trainer.model.model.norm.weight.requires_grad_(False)
    before = everything(trainer, tmp_path)

    testigo.pilot(trainer)

    assert everything(trainer, tmp_path) == before


def everything(trainer: Trainer, folder: Path) -> dict[str, Any]:
    def bits(tensor: torch.Tensor) -> bytes:
        return tensor.detach().numpy().tobytes()

    model, optimizer = trainer.model, trainer.optimizer
    return {
        "weights": {name: bits(p) for name, p in [*model.named_parameters(), *model.named_buffers()]},
        "objects": [id(p) for p in model.parameters()],
        "gradients": {
            name: None if p.grad is None else (id(p.grad), bits(p.grad)) for name, p in model.named_parameters()
        },
        "trained": {name: p.requires_grad for name, p in model.named_parameters()},
        "modes": {name: module.training for name, module in model.named_modules()},
        "hooks": {name: len(m._forward_hooks) + len(m._forward_pre_hooks) for name, m in model.named_modules()},
        "module attributes": {name: sorted(vars(module)) for name, module in model.named_modules()},
        "optimizer": (
            id(optimizer),
            [{k: v for k, v in group.items() if k != "params"} for group in optimizer.param_groups],
            [[id(p) for p in group["params"]] for group in optimizer.param_groups],
            {id(p): {k: bits(torch.as_tensor(v)) for k, v in s.items()} for p, s in optimizer.state.items()},
        ),
        "scheduler": {k: str(v) for k, v in vars(trainer.lr_scheduler).items()},
        "random": (random.getstate(), np.random.get_state()[1].tobytes(), bits(torch.get_rng_state())),
        "trainer": sorted(vars(trainer)),
        "state": json.dumps(trainer.state.__dict__, default=str, sort_keys=True),
        "control": dict(vars(trainer.control)),
        "accelerator": [len(getattr(trainer.accelerator, name)) for name in ("_models", "_optimizers", "_dataloaders")],
        "config": trainer.model.config.to_dict(),
        "files": sorted(str(path) for path in folder.rglob("*")),
    }


def test_the_pilot_after_a_training_leaves_its_result_alone(shop: Any) -> None:
    trainer = full(shop)
    _, weights = trained(trainer)
    rates = [group["lr"] for group in trainer.optimizer.param_groups]

    report = testigo.pilot(trainer)

    assert report.ok, report.table()
    assert all(torch.equal(p, weights[name]) for name, p in trainer.model.named_parameters())
    assert [group["lr"] for group in trainer.optimizer.param_groups] == rates
    assert len(trainer.state.log_history) > 4


def test_two_pilots_say_the_same(shop: Any) -> None:
    trainer = with_dropout(shop)

    first, second = testigo.pilot(trainer).to_json(), testigo.pilot(trainer).to_json()

    for name in ("ok", "findings", "passed", "not_checked"):
        assert first[name] == second[name]
