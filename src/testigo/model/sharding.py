"""Weights spread over the processes that train together (FSDP2), and whole tensors made of them again."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from testigo.model.device import device


def shard(model: nn.Module, trained: Collection[nn.Parameter], mesh: DeviceMesh | None = None) -> nn.Module:
    """Spread the weights over the processes, block by block (FSDP2).

    A frozen base is sharded and its adapter stays whole on every process: it is small, and summed as without shards.
    With full fine-tuning every weight is sharded, its gradient and its moments with it.

    Parameters
    ----------
    mesh
        The processes and their kind of device; None: all processes, on this machine's.
    """
    is_full = len(trained) == sum(1 for _ in model.parameters())
    replicated = set() if is_full else set(trained)
    for parameter in replicated:
        parameter.data = parameter.data.to(device() if mesh is None else mesh.device_type)
    for module in list(model.modules()):
        if isinstance(module, nn.ModuleList) and len(module) > 1 and any(True for _ in module.parameters()):
            for block in module:
                fully_shard(block, mesh=mesh, ignored_params=replicated)
    fully_shard(model, mesh=mesh, ignored_params=replicated)
    for module in model.modules():
        if isinstance(module, FSDPModule):  # a sum, as without shards: the loss was divided by all tokens
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)
    return model


def synchronise_gradients(model: nn.Module, wanted: bool) -> None:
    """Whether the next backward of sharded weights sends its gradients: only the last microbatch of an update does."""
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.set_requires_gradient_sync(wanted, recurse=False)


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor as it is without shards; every process has to ask for it at once."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def like(tensor: torch.Tensor, shape: torch.Tensor) -> torch.Tensor:
    """A whole tensor as another one is laid out: sharded, or as it is."""
    if not isinstance(shape, DTensor):
        return tensor
    return distribute_tensor(tensor.to(shape.device), shape.device_mesh, shape.placements)


def is_sharded(tensors: Iterable[torch.Tensor]) -> bool:
    """Whether any of them is spread over the processes."""
    return any(isinstance(tensor, DTensor) for tensor in tensors)
