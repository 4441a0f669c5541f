"""Digests of tensors: the proof of what moved and what did not, bit for bit."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

import torch

from testigo.model.sharding import whole


def tensor_sha256(tensor: torch.Tensor) -> str:
    """Of dtype, shape and every bit; of a sharded tensor, every process has to ask at once."""
    flat = whole(tensor.detach()).to("cpu").contiguous()
    sha = hashlib.sha256(f"{flat.dtype} {tuple(flat.shape)}\n".encode())
    sha.update(flat.reshape(-1).view(torch.uint8).numpy().data)
    return sha.hexdigest()


def digests(tensors: Iterable[tuple[str, torch.Tensor]]) -> dict[str, str]:
    """By name."""
    return {name: tensor_sha256(tensor) for name, tensor in tensors}


def combined_sha256(named: Mapping[str, str]) -> str:
    """One digest for many named ones, in the order of their names."""
    return hashlib.sha256("".join(f"{name} {named[name]}\n" for name in sorted(named)).encode()).hexdigest()


def weights_sha256(tensors: Mapping[str, torch.Tensor]) -> str:
    """One digest for a set of named tensors."""
    return combined_sha256(digests(tensors.items()))
