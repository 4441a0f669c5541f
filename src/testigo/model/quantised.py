"""A frozen base in four or eight bits a weight, by bitsandbytes: loaded so, and never changed after."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from importlib.util import find_spec
from types import MethodType
from typing import Any, Literal

import torch
from torch import nn
from torch.nn.functional import linear

from testigo.errors import MissingExtra
from testigo.model.device import device

Bits = Literal["4bit", "8bit"]

LARGEST_INT8 = 127
"""The integer that the largest weight of a row becomes (LLM.int8, section 2.1)."""

# It warns that there are no kernels of a community to download, which are not wanted.
logging.getLogger("bitsandbytes.backends.cpu.ops").setLevel(logging.ERROR)


def require(bits: Bits | None) -> None:
    """Hold what a base in few bits needs against what is installed.

    Raises
    ------
    MissingExtra
        When bitsandbytes is not installed, or what loads by it.
    """
    for library in ("bitsandbytes", "accelerate") if bits is not None else ():
        if find_spec(library) is None:
            raise MissingExtra(library, "quantised", "holds a base in four or eight bits")


def loading_options(bits: Bits | None, dtype: torch.dtype) -> dict[str, Any]:
    """What transformers' `from_pretrained` is asked for beside the dtype; nothing for a base in full.

    Four bits are NF4 with quantised scales (Dettmers et al. 2023, arXiv 2305.14314); eight are integers with a
    scale for each row (Dettmers et al. 2022, arXiv 2208.07339).

    Raises
    ------
    MissingExtra
        When bitsandbytes is not installed.
    """
    require(bits)
    if bits is None:
        return {}
    from transformers import BitsAndBytesConfig

    if bits == "8bit":
        settings = BitsAndBytesConfig(load_in_8bit=True)
    else:
        settings = BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=dtype,
        )
    return {"quantization_config": settings, "device_map": {"": str(device())}}


class _Product(torch.autograd.Function):
    """x Wᵀ + b with a frozen W of integers and a scale for each row; W in full is made for each pass and let go."""

    @staticmethod
    def forward(
        context: Any, x: torch.Tensor, weight: torch.Tensor, scales: torch.Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        """(…, in), (out, in), (out,), (out,) to (…, out)."""
        context.save_for_backward(weight, scales)
        return linear(x, _in_full(weight, scales, x.dtype), None if bias is None else bias.to(x.dtype))

    @staticmethod
    def backward(context: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        """(…, out) to (…, in)."""
        (gradient,), (weight, scales) = gradients, context.saved_tensors
        return gradient @ _in_full(weight, scales, gradient.dtype), None, None, None


def _in_full(weight: torch.Tensor, scales: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return weight.to(dtype).mul_((scales / LARGEST_INT8).to(dtype).unsqueeze(1))


def _forward_in_eight_bits(module: Any, x: torch.Tensor) -> torch.Tensor:
    """The layer's product with the weights' integers alone.

    bitsandbytes rounds the activations too, with exceptions that it picks over all rows of the batch, and on a CPU in
    evaluation only: a row's result would depend on its neighbours, and packed could not equal alone.
    """
    where = x.device.type
    dtype = torch.get_autocast_dtype(where) if torch.is_autocast_enabled(where) else x.dtype
    product: torch.Tensor = _Product.apply(x.to(dtype), module.weight.data, _scale(module), module.bias)
    return product


def settle(model: nn.Module) -> None:
    """Have the same bits, and the same products of them, in training and evaluation, in every batch."""
    for module in model.modules():
        if hasattr(module, "support_avx512bf16_for_cpu"):  # would pack the weights anew in evaluation on a CPU
            module.support_avx512bf16_for_cpu = False  # type: ignore[assignment]
        if type(module).__name__ == "Linear8bitLt":
            module.forward = MethodType(_forward_in_eight_bits, module)


def bits_of(model: nn.Module) -> Bits | None:
    """In how many bits the base is held; None in full."""
    kinds = {type(parameter).__name__ for parameter in model.parameters()}
    return "4bit" if "Params4bit" in kinds else "8bit" if "Int8Params" in kinds else None


def on_device(model: Any) -> Any:
    """The model on the device; one in few bits was loaded there."""
    return model.to(device()) if bits_of(model) is None else model


def all_weights(model: nn.Module) -> dict[str, torch.Tensor]:
    """Parameters by name, and the scales without which weights in few bits mean nothing."""
    return dict(model.named_parameters()) | dict(_scales(model))


def _scales(model: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    for name, module in model.named_modules():
        weight: Any = module._parameters.get("weight")  # an adapter's module shows its base's weight as its own
        state = getattr(weight, "quant_state", None)
        if state is not None:
            for key, value in state.as_dict(packed=True).items():
                yield f"{name}.weight.{key}", value
        elif type(weight).__name__ == "Int8Params":
            yield f"{name}.weight.SCB", _scale(module)


def _scale(module: Any) -> torch.Tensor:
    """(out,) the largest size in each row of weights in eight bits."""
    scale: torch.Tensor = module.weight.SCB if module.weight.SCB is not None else module.state.SCB
    return scale
