"""A campaign's model in memory: the exact base, and the adapter with trained weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import load_file
from torch import nn

from testigo.campaign import Campaign
from testigo.errors import ModelError
from testigo.model.adapter import attach, trained_parameters
from testigo.model.base import base_of
from testigo.model.head import Head
from testigo.model.load import Loaded, dtype_of, load_base
from testigo.model.sharding import like
from testigo.tasks import is_answered_by_head


def load_exactly(
    settings: Campaign,
    digest: str,
    *,
    seed: int,
    weights: Path | None = None,
    adapted: bool = False,
    labels: tuple[str, ...] = (),
) -> tuple[Loaded, Any]:
    """The base of a record, and the model to use: the base itself, or with its adapter.

    Parameters
    ----------
    digest
        Of the base's files, as recorded.
    weights
        Trained tensors to put into the adapter; with them, or when `adapted` is set, the adapter is attached.
    labels
        The names of the classes, where there are any: `testigo.tasks.labels_of`.

    Raises
    ------
    ModelError
        When the base on disk is not the one of the record, or when trained tensors do not fit by name and shape.
    """
    files = base_of(settings)
    if files.digest != digest:
        raise ModelError(
            expected=f"the base with digest {digest[:12]}…, as recorded",
            found=f"digest {files.digest[:12]}…: its files have changed",
            where=str(files.folder),
            action="restore the base, or run the campaign in a new workspace",
        )
    adapter = settings.model.adapter
    head = head_of(settings, labels, seed=seed)
    whole = adapter.method == "full" or head is not None  # a head is trained whole, in the numbers of what it reads
    loaded = load_base(
        files, dtype=dtype_of(settings.model.precision, full=whole), head=head, bits=settings.model.quantise
    )
    loaded = loaded if head else replace(loaded, labels=labels)  # a class that is written has a name too
    if weights is None and not adapted:
        return loaded, loaded.model
    model = attach(loaded.model, adapter, seed=seed, head=loaded.head)
    if weights is not None:
        fill(trained_parameters(model), load_file(weights), where=str(weights))
    return loaded, model


def head_of(settings: Campaign, labels: tuple[str, ...], *, seed: int = 0) -> Head | None:
    """The class head that a campaign asks for; None where a text is written."""
    if not is_answered_by_head(settings):
        return None
    reads: Literal["text", "image"] = "image" if settings.task.kind == "image-classification" else "text"
    return Head(labels, reads, settings.model.head, seed)


def fill(parameters: Mapping[str, nn.Parameter], tensors: Mapping[str, torch.Tensor], *, where: str) -> None:
    """Copy tensors into parameters by name; nothing stays as it was in silence.

    Raises
    ------
    ModelError
        When a name is missing or unexpected, or a shape differs.
    """
    missing = sorted(parameters.keys() - tensors.keys())
    unexpected = sorted(tensors.keys() - parameters.keys())
    shapes = [n for n in parameters.keys() & tensors.keys() if parameters[n].shape != tensors[n].shape]
    if missing or unexpected or shapes:
        faults = {"missing": missing, "unexpected": unexpected, "of another shape": sorted(shapes)}
        raise ModelError(
            expected="exactly the tensors that this campaign trains",
            found="; ".join(f"{len(names)} {kind}: {', '.join(names[:5])}" for kind, names in faults.items() if names),
            where=where,
            action="use the weights with the settings that made them",
        )
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(like(tensors[name], parameter))
