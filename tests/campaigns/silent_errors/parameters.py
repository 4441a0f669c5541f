"""Faults in what is trained, and in what of it would be saved."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from silent_errors.record import planted


@planted(
    "an adapter that was loaded frozen",
    source="C25; https://github.com/huggingface/peft/issues/282",
    codes="B101",
)
def adapter_loaded_frozen(shop: Any, sick: bool) -> Any:
    model = shop.lora(shop.llama(), modules_to_save=["lm_head"])
    if sick:
        for p in model.parameters():
            p.requires_grad = False
        model.enable_input_require_grads()  # so that the Trainer's backward raises nothing
    return shop.trainer(model)


@planted("everything but the norms is frozen", source="C26", codes="B201")
def all_but_norms_frozen(shop: Any, sick: bool) -> Any:
    model = shop.llama()
    if sick:
        for name, p in model.named_parameters():
            p.requires_grad = "norm" in name
    return shop.trainer(model)


@planted("half of the adapter is frozen", source="C26", codes="B102")
def half_of_the_adapter_frozen(shop: Any, sick: bool) -> Any:
    model = shop.lora(shop.llama())
    for name, p in model.named_parameters():
        if sick and "layers.1" in name:
            p.requires_grad = False
    return shop.trainer(model)


@planted(
    "the base is trained beside its adapter, and only the adapter would be saved",
    source="https://github.com/artidoro/qlora/issues/214",
    codes="B102 X201",
)
def base_trained_beside_adapter(shop: Any, sick: bool) -> Any:
    model = shop.lora(shop.llama())
    if sick:
        model.get_input_embeddings().requires_grad_(True)
    return shop.trainer(model)


@planted(
    "reentrant checkpointing over frozen embeddings",
    source="C23; https://github.com/huggingface/transformers/issues/26221",
    codes="B103",
)
def reentrant_checkpointing(shop: Any, sick: bool) -> Any:
    """Checkpointing of the user's own; the trained head keeps the loss differentiable, so nothing raises."""
    model = shop.lora(shop.llama(), modules_to_save=["lm_head"])
    for layer in model.base_model.model.model.layers:
        run = layer.forward
        layer.forward = lambda x, run=run, **others: checkpoint(partial(run, **others), x, use_reentrant=sick)
    return shop.trainer(model)


@planted("both matrices of the adapter are zero: nothing can ever move", source="a damaged adapter file", codes="B104")
def adapter_of_zeros(shop: Any, sick: bool) -> Any:
    model = shop.lora(shop.llama())
    for name, p in model.named_parameters():
        if sick and "lora_" in name:
            torch.nn.init.zeros_(p)
    return shop.trainer(model)


@planted("an adapter whose scale is zero", source="lora_alpha: 0 left from a sweep", codes="B104")
def adapter_of_scale_zero(shop: Any, sick: bool) -> Any:
    return shop.trainer(shop.lora(shop.llama(), lora_alpha=0 if sick else 8))


@planted(
    "an adapter around an adapter",
    source="https://github.com/huggingface/peft/issues/2115",
    codes="B203",
)
def adapter_around_an_adapter(shop: Any, sick: bool) -> Any:
    model = shop.lora(shop.llama())
    return shop.trainer(shop.lora(model) if sick else model)


@planted(
    "tied weights that a saved copy took apart",
    source="https://github.com/huggingface/peft/issues/2898",
    codes="B125",
)
def tied_weights_apart(shop: Any, sick: bool) -> Any:
    model = shop.llama(tie_word_embeddings=True)
    return shop.trainer(shop.lora(model, **({"modules_to_save": ["embed_tokens"]} if sick else {})))


@planted(
    "the base never saw a mark of the chat template, and its row of the frozen embedding copies a spare one",
    source="C22",
    codes="E123",
)
def untrained_mark(shop: Any, sick: bool) -> Any:
    model = shop.llama()
    if sick:
        with torch.no_grad():
            model.model.embed_tokens.weight[3] = model.model.embed_tokens.weight[399]
    return shop.trainer(shop.lora(model))


@planted("a mark's row of the embedding is zero and frozen; the twin trains it", source="C22", codes="E123")
def untrained_mark_of_zeros(shop: Any, sick: bool) -> Any:
    model = shop.llama()
    with torch.no_grad():
        model.model.embed_tokens.weight[3] = 0.0
    return shop.trainer(shop.lora(model, modules_to_save=None if sick else ["embed_tokens"]))


@planted("rows were tokenised with a larger vocabulary than the tokenizer's, in the spare rows of the embedding",
         source="C22", codes="E123")  # fmt: skip
def spare_rows(shop: Any, sick: bool) -> Any:
    rows = shop.chat_rows(shop.tokenizer())
    model = shop.lora(shop.llama(vocab_size=512))
    other = rows.map(lambda row: {"input_ids": [row["input_ids"][0], 450, *row["input_ids"][2:]]})
    return shop.trainer(model, rows=other if sick else rows)
