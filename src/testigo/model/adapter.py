"""What is trained: an adapter on a frozen base, or the whole model; the same seed gives the same initial values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from torch import nn

from testigo.errors import ModelError
from testigo.model.device import random_state_kept


@dataclass(frozen=True)
class Trained:
    """Which tensors are trained: names, how many values, and their share of the whole."""

    names: tuple[str, ...]
    n_parameters: int
    share: float

    def to_json(self) -> dict[str, Any]:
        """Counts alone; the names are in the export's record."""
        return {"tensors": len(self.names), "parameters": self.n_parameters, "share": self.share}


def attach(model: nn.Module, adapter: Any, *, seed: int) -> nn.Module:
    """Put the campaign's adapter on a base, or free the whole base for training.

    Parameters
    ----------
    adapter
        The campaign's `model.adapter`: method, rank, alpha, dropout, targets, save_modules.
    seed
        Of the adapter's initial values. The global random state is left alone.

    Raises
    ------
    ModelError
        When no module of the base carries a target's name.
    """
    if adapter.method == "full":
        return model.requires_grad_(True)
    settings = LoraConfig(
        r=adapter.rank,
        lora_alpha=adapter.alpha,
        lora_dropout=adapter.dropout,
        target_modules=adapter.targets if isinstance(adapter.targets, str) else list(adapter.targets),
        modules_to_save=list(adapter.save_modules) or None,
        task_type="CAUSAL_LM",
    )
    with random_state_kept():
        torch.manual_seed(seed)
        try:
            return get_peft_model(model, settings)
        except ValueError as error:
            linear = sorted({name.split(".")[-1] for name, m in model.named_modules() if isinstance(m, nn.Linear)})
            raise ModelError(
                expected=f"targets among the base's modules: {', '.join(linear)}",
                found=f"{adapter.targets} ({str(error).splitlines()[0]})",
                where="model.adapter.targets",
                action="name modules of this base, or all-linear",
            ) from error


def trained_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that ask for a gradient, by name, each once."""
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def trained(model: nn.Module) -> Trained:
    """The list that the record keeps."""
    own = trained_parameters(model)
    n_own = sum(p.numel() for p in own.values())
    return Trained(tuple(own), n_own, n_own / sum(p.numel() for p in model.parameters()))


def declared_names(model: nn.Module, adapter: Any) -> Iterator[str]:
    """What the campaign's settings say should be trained, derived from the modules rather than from `requires_grad`."""
    if adapter.method == "full":
        yield from (name for name, _ in model.named_parameters())
        return
    saved = set(adapter.save_modules)
    for name, _ in model.named_parameters():
        parts = name.split(".")
        if any(part.startswith("lora_") for part in parts) or ("modules_to_save" in parts and saved & set(parts)):
            yield name


def is_zero_gradient_expected_first(name: str) -> bool:
    """LoRA's A has no gradient at the first backward, because B begins at zero."""
    return ".lora_A." in name or ".lora_embedding_A" in name
