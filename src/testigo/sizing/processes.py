"""Processes that are not there: a group of many ranks in one process, to see what one of them holds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule
from torch.testing._internal.distributed.fake_pg import FakeStore


@contextmanager
def fake_processes(n: int) -> Iterator[DeviceMesh]:
    """The first of `n` processes whose messages go nowhere; what comes back has its size and no value."""
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=n)
    try:
        yield init_device_mesh("cpu", (n,))
    finally:
        dist.destroy_process_group()


@dataclass(frozen=True)
class Gathered:
    """What FSDP holds whole on one process beside its shards, some of it only for a while."""

    weights: tuple[torch.Tensor, ...]
    gradients: tuple[torch.Tensor, ...]


def gathered(model: nn.Module) -> Gathered:
    """The whole weights of blocks, and whole gradients that are not yet summed (torch keeps both to itself)."""
    weights: list[torch.Tensor] = []
    gradients: list[torch.Tensor | None] = []
    for module in model.modules():
        group: Any = module._get_fsdp_state()._fsdp_param_group if isinstance(module, FSDPModule) else None
        for held in () if group is None else group.fsdp_params:
            weights += held.all_gather_outputs
            whole = getattr(held, "_unsharded_param", None)
            gradients += [held.unsharded_accumulated_grad, None if whole is None else whole.grad]
            weights += [] if whole is None else [whole]
    return Gathered(tuple(weights), tuple(one for one in gradients if one is not None))
