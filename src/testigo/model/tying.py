"""The parts of a model that speak of its vocabulary, and whether those that it declares tied are one tensor."""

from __future__ import annotations

from typing import Any

from torch import nn


def input_embedding(model: Any) -> Any:
    """The part that turns ids into vectors; None where a model has none, such as one for images."""
    return _asked(model, "get_input_embeddings")


def output_embedding(model: Any) -> Any:
    """The part that turns vectors into logits over the vocabulary; None where a model has none."""
    return _asked(model, "get_output_embeddings")


def _asked(model: Any, accessor: str) -> Any:
    try:
        return getattr(model, accessor)()
    except (AttributeError, NotImplementedError):  # how models say that they have none
        return None


def untied(model: Any) -> tuple[str, ...]:
    """Names of embedding and head where the configuration ties them and they are two tensors; else empty.

    An adapter that computes its weight at each use (peft's trainable tokens) has no tensor to compare and is passed.
    """
    config = getattr(model, "config", None)
    if not getattr(config, "tie_word_embeddings", False):
        return ()
    weights = [_own_weight(part) for part in (input_embedding(model), output_embedding(model))]
    if any(weight is None for weight in weights) or weights[0] is weights[1]:
        return ()
    if weights[0].data_ptr() == weights[1].data_ptr() or weights[0].shape != weights[1].shape:
        return ()
    names = {id(p): name for name, p in model.named_parameters()}
    return tuple(names.get(id(weight), "a tensor outside the model") for weight in weights)


def _own_weight(part: Any) -> Any:
    """The tensor that a part computes with, inside peft's copies of saved modules and around adapters."""
    copies = getattr(part, "modules_to_save", None)
    active = getattr(part, "active_adapters", None) or [getattr(part, "active_adapter", None)]
    if isinstance(copies, nn.ModuleDict) and active[0] in copies:
        part = copies[active[0]]
    part = part.get_base_layer() if hasattr(part, "get_base_layer") else part
    return part.weight if isinstance(part, nn.Embedding | nn.Linear) else None
