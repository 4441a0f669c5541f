"""In which numbers a model really computes, whatever was declared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn


@contextmanager
def output_dtypes(model: nn.Module) -> Iterator[Counter[str]]:
    """Count the outputs of layers with a weight matrix by their dtype: `{"bfloat16": 28}` after a forward pass.

    Logits alone would not do: they are often made fp32 again. Embeddings only copy, and norms stay in fp32 on purpose.
    """
    seen: Counter[str] = Counter()

    def look(module: nn.Module, inputs: Any, output: Any) -> None:
        if isinstance(output, torch.Tensor) and output.is_floating_point():
            seen[str(output.dtype).removeprefix("torch.")] += 1

    with ExitStack() as stack:
        for module in model.modules():
            if _has_matrix(module):
                stack.enter_context(module.register_forward_hook(look))
        yield seen


def _has_matrix(module: nn.Module) -> bool:
    weight = module._parameters.get("weight")
    return weight is not None and weight.ndim >= 2 and not isinstance(module, nn.Embedding)
