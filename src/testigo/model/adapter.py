"""What is trained: an adapter on a frozen base, or the whole model; the same seed gives the same initial values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from torch import nn
from transformers.pytorch_utils import Conv1D

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


def attach(model: nn.Module, adapter: Any, *, seed: int, head: Sequence[str] = ()) -> nn.Module:
    """Put the campaign's adapter on a base, or free the whole base for training.

    Parameters
    ----------
    adapter
        The campaign's `model.adapter`: method, rank, alpha, dropout, targets, save_modules.
    seed
        Of the adapter's initial values. The global random state is left alone.
    head
        The modules of a class head: trained and saved whole, and no place for an adapter.

    Raises
    ------
    ModelError
        When no module of the base carries the name of a target or of a module to save.
    """
    if adapter.method == "full":
        return model.requires_grad_(True)
    settings = LoraConfig(
        r=adapter.rank,
        lora_alpha=adapter.alpha,
        lora_dropout=adapter.dropout,
        target_modules=_targets(model, adapter.targets, head),
        modules_to_save=list(dict.fromkeys([*_full_names(model, adapter.save_modules), *head])) or None,
        fan_in_fan_out=any(isinstance(module, Conv1D) for module in model.modules()),  # GPT-2 holds weights transposed
        task_type=None if head else "CAUSAL_LM",
    )
    with random_state_kept():
        torch.manual_seed(seed)
        try:
            return get_peft_model(model, settings)
        except ValueError as error:
            raise _no_such_module(model, f"{adapter.targets} ({str(error).splitlines()[0]})", "targets") from error


def _targets(model: nn.Module, targets: Any, head: Sequence[str]) -> str | list[str]:
    """What gets a pair of matrices; with a head by full names, since peft knows only some heads as such."""
    if not isinstance(targets, str):
        _full_names(model, targets, "targets")  # peft alone leaves out in silence what no module is called
    if not head:
        return targets if isinstance(targets, str) else list(targets)
    under = [
        name
        for name, module in model.named_modules()
        if not any(name == own or name.startswith(f"{own}.") for own in head)
        and (isinstance(module, (nn.Linear, Conv1D)) if targets == "all-linear" else _is_named(name, targets))
    ]
    if not under:
        raise _no_such_module(model, str(targets), "targets")
    return under


def _is_named(path: str, wanted: Iterable[str]) -> bool:
    return any(_ends_with(path, name) for name in wanted)


def _full_names(model: nn.Module, wanted: Iterable[str], key: str = "save_modules") -> list[str]:
    """The modules whose path ends with a wanted one. peft alone would take `input_layernorm` for `norm`."""
    every = [name for name, _ in model.named_modules()]
    found = {name: [path for path in every if _ends_with(path, name)] for name in wanted}
    for name, paths in found.items():
        if not paths:
            raise _no_such_module(model, repr(name), key)
    return [path for paths in found.values() for path in paths]


def _ends_with(path: str, name: str) -> bool:
    return path == name or path.endswith(f".{name}")


def _no_such_module(model: nn.Module, found: str, key: str) -> ModelError:
    there = sorted({name.split(".")[-1] for name, m in model.named_modules() if [*m.parameters(recurse=False)]})
    return ModelError(
        expected=f"{key} among the base's modules: {', '.join(there)}",
        found=found,
        where=f"model.adapter.{key}",
        action="name modules of this base" + (", or all-linear" if key == "targets" else ""),
    )


def trained_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that ask for a gradient, by name, each once."""
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def trained(model: nn.Module) -> Trained:
    """The list that the record keeps."""
    own = trained_parameters(model)
    n_own = sum(p.numel() for p in own.values())
    return Trained(tuple(own), n_own, n_own / sum(p.numel() for p in model.parameters()))


def declared_names(model: nn.Module, adapter: Any, head: Sequence[str] = ()) -> Iterator[str]:
    """What the campaign's settings say should be trained, derived from the modules rather than from `requires_grad`."""
    if adapter.method == "full":
        yield from (name for name, _ in model.named_parameters())
        return
    for name, _ in model.named_parameters():
        module, saved, _ = name.partition(".modules_to_save.")
        if any(part.startswith("lora_") for part in name.split(".")) or (
            saved and any(_ends_with(module, wanted) for wanted in (*adapter.save_modules, *head))
        ):
            yield name


def is_zero_gradient_expected_first(name: str) -> bool:
    """LoRA's A has no gradient at the first backward, because B begins at zero."""
    return ".lora_A." in name or ".lora_embedding_A" in name
