"""The processes that train one run together, each with its own microbatches of every update.

The gradient of an update is the sum over all its rows, divided by all its supervised tokens, however its microbatches
are dealt out. So it is summed over the processes once, after the last microbatch, and never averaged.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor

from testigo.encoding import Batch
from testigo.model.device import device
from testigo.training.heartbeat import Heartbeat

T = TypeVar("T")


@dataclass(frozen=True)
class Part:
    """A microbatch of an update, by its number in it; one that does not count is computed beside other processes."""

    number: int
    pack: Batch
    counts: bool = True


@dataclass(frozen=True)
class Counts:
    """What a microbatch holds, known before it is computed."""

    number: int
    supervised_tokens: int
    tokens: int
    rows: tuple[str, ...]

    @classmethod
    def of(cls, parts: Sequence[Part]) -> tuple[Counts, ...]:
        """Of the microbatches that count."""
        counted = [part for part in parts if part.counts]
        before = max((getattr(part.pack, "n_before", 0) for part in counted), default=0)  # computed once for all packs
        return tuple(
            cls(p.number, p.pack.n_supervised, p.pack.n_tokens + (before if p is counted[0] else 0), p.pack.row_ids)
            for p in counted
        )


@dataclass(frozen=True)
class Replicas:
    """How many processes there are, and which of them this one is; one alone needs no communication."""

    rank: int = 0
    n: int = 1

    @property
    def is_first(self) -> bool:
        """The one that writes."""
        return self.rank == 0

    def share(self, items: Sequence[T]) -> list[tuple[int, T, bool]]:
        """The own ones of some items: number, item, and whether it counts.

        Each process gets equally many, since sharded weights are gathered by all at once: where items are too few, one
        that another process has is computed too, and does not count.
        """
        own = [(number, item, True) for number, item in enumerate(items) if number % self.n == self.rank]
        most = -(-len(items) // self.n)
        return own + [(0, items[0], False)] * (most - len(own))

    def gathered(self, value: T) -> list[T]:
        """The value of every process, by rank."""
        if self.n == 1:
            return [value]
        values: list[Any] = [None] * self.n
        dist.all_gather_object(values, value)
        return values

    def from_first(self, value: T) -> T:
        """What the first process says."""
        if self.n == 1:
            return value
        told = [value]
        dist.broadcast_object_list(told, src=0)
        return told[0]

    def any(self, flag: bool) -> bool:
        """Whether one of the processes says so."""
        return flag if self.n == 1 else any(self.gathered(flag))

    def wait(self) -> None:
        """For all the others."""
        if self.n > 1:
            dist.barrier()

    def add_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Sum the gradients of replicated parameters over the processes, in place; sharded ones were summed already.

        One message a dtype, so that many small tensors cost no more than one large one.
        """
        if self.n == 1:
            return
        kinds: dict[torch.dtype, list[torch.Tensor]] = {}
        for parameter in parameters:
            if isinstance(parameter, DTensor):
                continue
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            kinds.setdefault(parameter.grad.dtype, []).append(parameter.grad)
        for gradients in kinds.values():
            flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
            dist.all_reduce(flat, op=dist.ReduceOp.SUM)
            for gradient, summed in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
                gradient.copy_(summed.view_as(gradient))


ALONE = Replicas()
"""A run in one process."""


_heartbeats: list[Heartbeat] = []


def begin() -> Replicas:
    """Join the processes of a launcher, each on a device of its own: NCCL or RCCL between GPUs, gloo on a CPU."""
    own = Replicas(int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1")))
    if own.n > 1:
        if torch.accelerator.is_available():
            torch.accelerator.set_device_index(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group(dist.get_default_backend_for_device(device()))
        _heartbeats.append(Heartbeat(own.rank, own.n))
        _heartbeats[0].start()
    return own


def end() -> None:
    """Leave the others, when all have come so far: one that goes early takes the connections of the rest with it."""
    if dist.is_initialized():
        dist.barrier()
        while _heartbeats:
            _heartbeats.pop().end()
        dist.destroy_process_group()


def leave(exit_code: int) -> None:
    """End this process at once where it was one of several: threads of the communication may abort a usual end."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(exit_code)
