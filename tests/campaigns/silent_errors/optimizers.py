"""Faults in optimizers, schedules and precision: what is updated, and by how much."""

from __future__ import annotations

from typing import Any

import torch
from transformers import Trainer, get_constant_schedule_with_warmup, get_linear_schedule_with_warmup

from silent_errors.record import planted


@planted(
    "an optimizer that was built before the adapter",
    source="C24; https://github.com/adapter-hub/adapters/issues/260",
    codes="U101",
)
def optimizer_before_adapter(shop: Any, sick: bool) -> Any:
    model = shop.llama()
    if sick:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        return shop.trainer(shop.lora(model), optimizers=(optimizer, None))
    adapted = shop.lora(model)
    own = [p for p in adapted.parameters() if p.requires_grad]
    return shop.trainer(adapted, optimizers=(torch.optim.AdamW(own, lr=1e-3), None))


@planted("an optimizer that lacks a part of the model", source="a filter by name", codes="U102")
def optimizer_lacks_a_part(shop: Any, sick: bool) -> Any:
    model = shop.gpt2()
    own = [p for name, p in model.named_parameters() if not (sick and "mlp" in name)]
    return shop.trainer(model, optimizers=(torch.optim.AdamW(own, lr=1e-3), None))


@planted(
    "the head was replaced after the optimizer was built",
    source="https://github.com/huggingface/peft/issues/2898",
    codes="U102 U103",
)
def head_replaced_after_optimizer(shop: Any, sick: bool) -> Any:
    model = shop.llama()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    if sick:
        model.resize_token_embeddings(408)
    return shop.trainer(model, optimizers=(optimizer, None))


@planted("tied weights stand in the optimizer twice", source="parameters listed module by module", codes="U104")
def tied_weights_twice(shop: Any, sick: bool) -> Any:
    model = shop.llama(tie_word_embeddings=True)
    listed = [p for module in model.modules() for p in module.parameters(recurse=False)]
    unique = list({id(p): p for p in listed}.values())
    return shop.trainer(model, optimizers=(torch.optim.AdamW(listed if sick else unique, lr=1e-3), None))


class Slipping(torch.nn.Linear):
    """Writes to its own frozen weight at each forward pass."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            with torch.no_grad():
                self.weight += 1e-4
        return super().forward(x.clone())


@planted("a frozen layer that writes to its own weight", source="a buffer that was made a parameter", codes="U107")
def frozen_layer_that_moves(shop: Any, sick: bool) -> Any:
    model = shop.lora(shop.llama())
    if sick:
        head = Slipping(32, 400, bias=False)
        head.weight = model.base_model.model.lm_head.weight
        model.base_model.model.lm_head = head
    return shop.trainer(model)


@planted(
    "pure bf16 at a learning rate that its rounding swallows",
    source="https://github.com/pytorch/ao/pull/1124",
    codes="U125",
)
def lost_to_rounding(shop: Any, sick: bool) -> Any:
    model = shop.llama().to(torch.bfloat16)
    return shop.trainer(model, learning_rate=1e-6 if sick else 5e-3)


@planted(
    "a schedule built for microbatches",
    source="https://github.com/huggingface/accelerate/issues/2318",
    codes="U110",
)
def schedule_in_microbatches(shop: Any, sick: bool) -> Any:
    model = shop.llama()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = get_linear_schedule_with_warmup(optimizer, 1, 16 if sick else 4)
    return shop.trainer(model, optimizers=(optimizer, scheduler), gradient_accumulation_steps=4)


@planted("a warm-up longer than the run", source="warmup_steps copied from a longer run", codes="U201")
def warm_up_longer_than_the_run(shop: Any, sick: bool) -> Any:
    return shop.trainer(warmup_steps=1000 if sick else 2, max_steps=20)


@planted("a learning rate of zero", source="a sweep that wrote 0 for 1e-5", codes="U202")
def learning_rate_of_zero(shop: Any, sick: bool) -> Any:
    return shop.trainer(learning_rate=0.0 if sick else 1e-3)


@planted("the schedule moves another optimizer's learning rate", source="the optimizer was built anew", codes="U203")
def schedule_of_another_optimizer(shop: Any, sick: bool) -> Any:
    model = shop.llama()
    optimizer, other = (torch.optim.AdamW(model.parameters(), lr=1e-3) for _ in range(2))
    scheduler = get_constant_schedule_with_warmup(other if sick else optimizer, 2)
    return shop.trainer(model, optimizers=(optimizer, scheduler))


class NeverClips(Trainer):
    """Reports the norm and leaves the gradient as it is."""

    def _clip_grad_norm(self, model: Any) -> Any:
        return self.accelerator.clip_grad_norm_(model.parameters(), float("inf"))


@planted("clipping that reports and does not clip", source="an overridden method", codes="U111")
def clipping_not_applied(shop: Any, sick: bool) -> Any:
    return shop.trainer(kind=NeverClips if sick else Trainer, max_grad_norm=0.05)
