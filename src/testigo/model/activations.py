"""Activations kept or computed twice: less memory, more time, the same gradients."""

from __future__ import annotations

from typing import Any

from testigo.errors import ModelError


def checkpoint_activations(model: Any, on: bool = True) -> None:
    """Switch activation checkpointing on or off, whatever the version of transformers calls it.

    Non-reentrant: the reentrant kind loses the gradients of adapters over frozen embeddings.

    Raises
    ------
    ModelError
        When the architecture does not offer it.
    """
    kind = "activation" if hasattr(model, "activation_checkpointing_enable") else "gradient"
    if not on:
        getattr(model, f"{kind}_checkpointing_disable")()
        return
    try:
        getattr(model, f"{kind}_checkpointing_enable")(**{f"{kind}_checkpointing_kwargs": {"use_reentrant": False}})
    except ValueError as error:
        raise ModelError(
            expected="an architecture that can compute its activations twice",
            found=str(error),
            where="training.activation_checkpointing",
            action="set it to false for this base",
        ) from error
