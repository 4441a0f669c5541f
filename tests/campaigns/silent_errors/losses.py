"""Faults in the loss and in how it is accumulated."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn.functional import dropout
from transformers import LlamaForCausalLM, Trainer

from silent_errors.record import planted


class OldSignature(LlamaForCausalLM):
    """Takes no further keywords, so the Trainer cannot tell it how many tokens the update has."""

    def forward(self, input_ids: Any = None, attention_mask: Any = None, labels: Any = None) -> Any:  # type: ignore[override]
        return super().forward(input_ids=input_ids, attention_mask=attention_mask, labels=labels)


class OwnLoss(Trainer):
    """Its loss is a mean over its own microbatch; whoever wrote it did not know of the accumulation."""

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        outputs = model(**inputs)
        return (outputs.loss, outputs) if return_outputs else outputs.loss


class NoisyHead(torch.nn.Linear):
    """Dropout that does not ask whether the model is trained."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(dropout(x, 0.5, training=True))


class Stubborn(torch.nn.Dropout):
    """Stays in training mode whatever it is told."""

    def train(self, mode: bool = True) -> Stubborn:
        self.training = True
        return self


@planted(
    "a mean of means: the model's forward takes no further keywords",
    source="C02; https://github.com/huggingface/blog/pull/2414",
    codes="B108 B109",
)
def mean_of_means(shop: Any, sick: bool) -> Any:
    return shop.trainer(OldSignature(shop.llama().config) if sick else shop.llama(), gradient_accumulation_steps=4)


@planted("a mean of means in GPT-2", source="C02; https://github.com/huggingface/transformers/pull/34191", codes="B108")
def mean_of_means_in_gpt2(shop: Any, sick: bool) -> Any:
    model = shop.gpt2()
    if sick:
        model.accepts_loss_kwargs = False
    return shop.trainer(model, gradient_accumulation_steps=2)


@planted(
    "an own compute_loss that knows nothing of the accumulation: the gradient is several times too large",
    source="https://github.com/huggingface/transformers/pull/35207",
    codes="B108 B109",
)
def own_loss_without_count(shop: Any, sick: bool) -> Any:
    return shop.trainer(kind=OwnLoss if sick else Trainer, gradient_accumulation_steps=4)


@planted(
    "a weight of the base is NaN; the Trainer logs a loss of 0.0",
    source="https://github.com/huggingface/transformers/issues/31391",
    codes="F101",
)
def weight_that_is_nan(shop: Any, sick: bool) -> Any:
    model = shop.llama()
    if sick:
        with torch.no_grad():
            model.model.layers[1].mlp.down_proj.weight[0, 0] = math.nan
    return shop.trainer(model)


@planted("the tokenizer of another model of the same size", source="C06", codes="F107")
def tokenizer_of_another_model(shop: Any, sick: bool) -> Any:
    """The model's embedding is in another order than the tokenizer's ids; it is surer than guessing, and wrong."""
    model = shop.taught()
    if sick:
        order = torch.randperm(400, generator=torch.Generator().manual_seed(0))
        with torch.no_grad():
            model.lm_head.weight.copy_(model.lm_head.weight[order] * 2)
            model.model.embed_tokens.weight.copy_(model.model.embed_tokens.weight[order])
    return shop.trainer(model)


@planted("dropout that stays active in evaluation", source="C29", codes="F112")
def dropout_in_evaluation(shop: Any, sick: bool) -> Any:
    model = shop.llama()
    if sick:
        head = NoisyHead(32, 400, bias=False)
        head.weight = model.lm_head.weight
        model.lm_head = head
    return shop.trainer(model, evaluation=shop.validation_rows())


@planted("a module that stays in training mode", source="C29", codes="V101 F112")
def module_stays_in_training_mode(shop: Any, sick: bool) -> Any:
    model = shop.gpt2(resid_pdrop=0.1)
    if sick:
        model.transformer.drop = Stubborn(0.3)
    return shop.trainer(model, evaluation=shop.validation_rows())


@planted("gradients are never emptied", source="C27", codes="B110")
def gradients_never_emptied(shop: Any, sick: bool) -> Any:
    model = shop.llama()
    if sick:
        model.zero_grad = lambda set_to_none=True: None  # type: ignore[method-assign]
    return shop.trainer(model)


@planted("gradients of the wrong sign", source="a hook that was left in", codes="U122")
def gradients_of_the_wrong_sign(shop: Any, sick: bool) -> Any:
    model = shop.llama()
    for p in model.parameters():
        if sick:
            p.register_hook(torch.neg)
    return shop.trainer(model)
