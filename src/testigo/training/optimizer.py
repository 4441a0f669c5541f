"""AdamW over the trained parameters, the learning rate as a pure function, and the scaler of fp16."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import torch
from torch import nn

from testigo.model.sharding import whole


def build_optimizer(
    parameters: dict[str, nn.Parameter], *, learning_rate: float, weight_decay: float
) -> torch.optim.AdamW:
    """AdamW (Loshchilov & Hutter, arXiv 1711.05101). Vectors (norms, biases) are not decayed, as is usual."""
    decayed = [p for p in parameters.values() if p.ndim >= 2]
    plain = [p for p in parameters.values() if p.ndim < 2]
    groups = [{"params": decayed, "weight_decay": weight_decay}, {"params": plain, "weight_decay": 0.0}]
    return torch.optim.AdamW([g for g in groups if g["params"]], lr=learning_rate)


def learning_rate_at(update: int, *, peak: float, kind: str, warmup_updates: int, n_updates: int) -> float:
    """The learning rate of an update, counted from 1.

    Warm-up rises linearly and reaches the peak at its last update; then `constant` stays, `linear` and `cosine` fall
    and would reach zero one update after the last, so that no update is wasted.
    """
    if update <= warmup_updates:
        return peak * update / warmup_updates
    if kind == "constant":
        return peak
    done = (update - warmup_updates - 1) / max(n_updates - warmup_updates, 1)
    return peak * (1 - done) if kind == "linear" else peak * 0.5 * (1 + math.cos(math.pi * done))


def warmup_updates(share: float, n_updates: int) -> int:
    """A share of the planned updates, at least one when any warm-up is asked for."""
    return max(round(share * n_updates), 1) if share > 0 else 0


def set_learning_rate(optimizer: torch.optim.Optimizer, value: float) -> None:
    """For all groups."""
    for group in optimizer.param_groups:
        group["lr"] = value


def autocast(precision: str, device: torch.device) -> Any:
    """Mixed precision for a forward pass; nothing for fp32."""
    if precision == "fp32":
        return contextlib.nullcontext()
    return torch.autocast(device.type, dtype=torch.bfloat16 if precision == "bf16" else torch.float16)


def gradient_scaler(precision: str, device: torch.device) -> torch.amp.GradScaler:
    """Loss scaling for fp16; switched off otherwise. It sees the gradient of the whole update, once."""
    return torch.amp.GradScaler(device.type, enabled=precision == "fp16")


def clip(parameters: list[nn.Parameter], maximum: float | None) -> float:
    """Clip the global gradient norm in place. Returns the norm before clipping."""
    norm = torch.nn.utils.clip_grad_norm_(parameters, math.inf if maximum is None else maximum)
    return float(whole(norm))
