"""The base's layers as bitsandbytes holds them, by size alone: the library itself is not needed to size.

What a layer holds is bitsandbytes' own format (its `QuantState`): in four bits the packed weights, one byte of scale
for each 64 of them and four bytes for each 256 of those (Dettmers et al. 2023, arXiv 2305.14314, section 3); in eight
bits one byte a weight and four for each row (Dettmers et al. 2022, arXiv 2208.07339). A pass makes one layer's weights
in full, and lets them go. A test holds all of it against the library.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.functional import linear
from transformers.pytorch_utils import Conv1D
from transformers.quantizers.base import get_keys_to_not_convert
from transformers.quantizers.quantizers_utils import should_convert_module

from testigo.model.quantised import Bits

BLOCK = 64
"""Weights under one scale."""
SCALES_BLOCK = 256
"""Scales under one scale of their own."""
MAP_VALUES = 16 + 256 + 1
"""Values [4 bytes] that each layer holds: what 4 bits mean, what a scale's 8 bits mean, and the mean of the scales."""


class FewBits(nn.Linear):
    """A layer that takes the memory of a quantised one."""

    def __init__(self, n_in: int, n_out: int, bits: Bits, dtype: torch.dtype, *, has_bias: bool) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features, self.bits, self.dtype = n_in, n_out, bits, dtype
        size, kind = ((n_out, n_in), torch.int8) if bits == "8bit" else ((-(-n_in * n_out // 2), 1), torch.uint8)
        self.weight = nn.Parameter(torch.empty(size, dtype=kind), requires_grad=False)
        own = nn.Parameter(torch.empty(n_out, dtype=dtype), requires_grad=False) if has_bias else None
        self.register_parameter("bias", own)
        if bits == "8bit":
            self.register_buffer("scales", torch.empty(n_out, dtype=torch.float32))
            return
        n_scales = -(-n_in * n_out // BLOCK)
        self.register_buffer("scales", torch.empty(n_scales, dtype=torch.uint8))
        self.register_buffer("scales_of_scales", torch.empty(-(-n_scales // SCALES_BLOCK), dtype=torch.float32))
        self.register_buffer("maps", torch.empty(MAP_VALUES, dtype=torch.float32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(…, in) to (…, out), through the weights in full."""
        asked = x.dtype
        if self.bits == "8bit":
            in_autocast = torch.is_autocast_enabled("cpu")
            x = x.to(torch.get_autocast_dtype("cpu") if in_autocast else asked)
            product: torch.Tensor = _Product.apply(x, self.in_features, self.out_features, self.bias)
            return product
        product = _Product.apply(x.to(self.dtype), self.in_features, self.out_features, self.bias)
        return product.to(asked).clone()  # peft copies the output of a layer in four bits


class _Product(torch.autograd.Function):
    """A product that keeps nothing for its backward pass but what it can make again."""

    @staticmethod
    def forward(context: Any, x: torch.Tensor, n_in: int, n_out: int, bias: torch.Tensor | None) -> torch.Tensor:
        """(…, in) to (…, out)."""
        context.sizes = (n_out, n_in)
        weight = torch.empty((n_out, n_in), dtype=x.dtype)
        return linear(x, weight, None if bias is None else bias.to(x.dtype))

    @staticmethod
    def backward(context: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        """(…, out) to (…, in)."""
        (gradient,) = gradients
        return gradient @ torch.empty(context.sizes, dtype=gradient.dtype), None, None, None


def in_few_bits(model: Any, bits: Bits, dtype: torch.dtype) -> None:
    """Put such a layer in the place of each that transformers would quantise."""
    kept = get_keys_to_not_convert(model)
    for name, module in list(model.named_modules()):
        if not (isinstance(module, Conv1D) or type(module) is nn.Linear) or not should_convert_module(name, kept):
            continue
        n_in, n_out = module.weight.shape if isinstance(module, Conv1D) else reversed(module.weight.shape)
        model.set_submodule(name, FewBits(n_in, n_out, bits, dtype, has_bias=module.bias is not None))


def largest_in_full(model: nn.Module) -> tuple[int, int] | None:
    """The sizes of the largest layer in few bits, which is there in full while it is loaded; None without any."""
    layers = [(m.out_features, m.in_features) for m in model.modules() if isinstance(m, FewBits)]
    return max(layers, key=lambda size: size[0] * size[1], default=None)
