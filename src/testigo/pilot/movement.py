"""What an update should have moved, and what its rounding left as it was."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from testigo.model.sharding import whole

_AT_ONCE = 2**22
"""Numbers that are compared at once, so that a large matrix needs no second one of its size."""


def due(parameters: Mapping[str, nn.Parameter], rates: Mapping[str, float]) -> tuple[str, ...]:
    """Names of the parameters that this gradient has to move.

    One number is enough whose gradient times the learning rate is above the spacing of the numbers there. AdamW's first
    update is larger than that product for gradients below one, SGD's is as large.
    """
    return tuple(name for name, p in parameters.items() if p.grad is not None and _is_due(p, rates.get(name, 0.0)))


def _is_due(parameter: nn.Parameter, rate: float) -> bool:
    assert parameter.grad is not None
    spacing = torch.finfo(parameter.dtype).eps
    values = whole(parameter.detach()).reshape(-1).split(_AT_ONCE)
    gradients = whole(parameter.grad.detach()).reshape(-1).split(_AT_ONCE)
    return any(
        bool((g.float().abs() * rate > v.float().abs() * spacing).any()) for v, g in zip(values, gradients, strict=True)
    )


def in_half_precision(parameters: Mapping[str, nn.Parameter]) -> dict[str, nn.Parameter]:
    """Those whose numbers are bf16 or fp16."""
    return {name: p for name, p in parameters.items() if p.dtype in (torch.bfloat16, torch.float16)}


def rounded_away(
    parameters: Mapping[str, nn.Parameter], before: Mapping[str, torch.Tensor], nonzero: Mapping[str, torch.Tensor]
) -> float | None:
    """Share of the half-precision numbers with a gradient that are bit for bit as they were; None without such."""
    total = lost = 0
    for name, p in in_half_precision(parameters).items():
        if name in nonzero:
            own = p.detach()
            still = (own == before[name].to(own.device)) & nonzero[name]
            total, lost = total + int(nonzero[name].sum()), lost + int(still.sum())
    return lost / total if total else None
