"""The campaign's model as a shape: from its configuration alone, without reading or fetching a single weight."""

from __future__ import annotations

import copy
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging as transformers_logging

from testigo.campaign import Campaign
from testigo.errors import ModelError
from testigo.model.adapter import attach
from testigo.model.base import base_of
from testigo.model.head import head_modules, keep_statistics
from testigo.model.load import dtype_of, load_processor
from testigo.model.prepare import head_of
from testigo.sizing.few_bits import in_few_bits


@dataclass(frozen=True)
class Source:
    """What transformers' `from_pretrained` is asked for: a folder or hub name, and how."""

    name: str
    options: dict[str, str]
    trusted: bool = False

    def configuration(self) -> Any:
        """The architecture's configuration."""
        return self._ask(AutoConfig, "a configuration of a causal language model that transformers knows")

    def tokenizer(self) -> Any:
        """The base's own tokenizer."""
        return self._ask(AutoTokenizer, "a tokenizer beside the configuration")

    def reader(self, campaign: Campaign) -> Any:
        """What makes tensors of the campaign's rows: the base's own tokenizer or image processor."""
        if campaign.task.kind == "image-classification":
            return load_processor(Path(self.name), trusted=self.trusted)
        return self.tokenizer()

    def _ask(self, kind: Any, expected: str) -> Any:
        transformers_logging.set_verbosity_error()
        transformers_logging.disable_progress_bar()
        try:
            return kind.from_pretrained(self.name, trust_remote_code=self.trusted, **self.options)
        except Exception as error:
            raise ModelError(
                expected=expected,
                found=f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}",
                where=f"model.base: {self.name}",
                action="check that config.json and the tokenizer's files are there; weights are not needed to size",
            ) from error


def source_of(campaign: Campaign) -> Source:
    """Where a base's configuration lies. Of a hub base only configuration and tokenizer are fetched.

    Raises
    ------
    ModelError
        When the base cannot be found.
    """
    base, relative_to, trusted = campaign.model.base, campaign.folder, campaign.model.trust_remote_code
    kind, _, rest = base.partition(":")
    if kind == "hub":
        name, _, revision = rest.partition("@")
        return Source(name, {"revision": revision}, trusted)
    if kind == "path" and ((relative_to / rest) / "config.json").is_file():
        return Source(str((relative_to / rest).resolve()), {}, trusted)
    files = base_of(campaign)
    if files.gguf is None:
        return Source(str(files.folder), {}, trusted)
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "testigo" / "bases"
    kept = cache / files.identity.weights_sha256  # where the loading of a GGUF base leaves it dequantised
    if (kept / "config.json").is_file():
        return Source(str(kept), {})
    return Source(str(files.folder), {"gguf_file": files.gguf})


def shape(campaign: Campaign, configuration: Any, *, adapted: bool, n_classes: int = 0) -> nn.Module:
    """The model on torch's `meta` device: every tensor with its size, none with a value."""
    method = campaign.model.adapter.method
    head = head_of(campaign, tuple(map(str, range(n_classes))))
    dtype = dtype_of(campaign.model.precision, full=method == "full" or head is not None)
    auto_class: Any = AutoModelForCausalLM
    if head is not None:
        configuration, auto_class = copy.deepcopy(configuration), head.auto_class
        configuration.num_labels = n_classes
        if head.reads == "text" and configuration.get_text_config().pad_token_id is None:
            configuration.get_text_config().pad_token_id = 0
    with torch.device("meta"):
        model: nn.Module = auto_class.from_config(
            configuration, dtype=dtype, trust_remote_code=campaign.model.trust_remote_code
        )
        if campaign.model.quantise is not None:
            in_few_bits(model, campaign.model.quantise, dtype)
        modules = () if head is None else head_modules(model)
        if head is not None:
            keep_statistics(model)
        if adapted:
            model = attach(model, campaign.model.adapter, seed=0, head=modules)
    return model


def make_fake(model: nn.Module) -> None:
    """Put a fake CPU tensor in the place of each meta tensor, tied ones by the same; inside of a `FakeTensorMode`.

    `.to()` cannot do it: it does not carry meta tensors over under the fake mode.
    """
    known: dict[int, nn.Parameter] = {}
    for module in model.modules():
        for name, parameter in list(module._parameters.items()):
            if parameter is None:
                continue
            if id(parameter) not in known:
                fake = torch.empty(parameter.shape, dtype=parameter.dtype)
                known[id(parameter)] = nn.Parameter(fake, requires_grad=parameter.requires_grad)
            module._parameters[name] = known[id(parameter)]
        for name, buffer in list(module._buffers.items()):
            if buffer is not None:
                module._buffers[name] = torch.empty(buffer.shape, dtype=buffer.dtype)
