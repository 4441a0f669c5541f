"""A pilot's process with a planted fault: `FAULT=averages` in sums and in what a resume restores, `FAULT=memory`."""

from __future__ import annotations

import os
import sys
from typing import Any

import torch

from testigo.pilot import replica
from testigo.training import checkpoint, replicas
from testigo.training.loop import Session


def averages(self: replicas.Replicas, parameters: Any) -> None:
    """As a library that takes the mean over processes would do it."""
    kept = list(parameters)
    summed(self, kept)
    for parameter in kept:
        parameter.grad.div_(self.n)


def without_moments(found: Any, parameters: Any, optimizer: Any) -> None:
    restored(found, parameters, optimizer)
    optimizer.state.clear()


def runs_out(self: Session, update: int) -> dict[str, Any]:
    if update == 2 and self.replicas.rank == 1:
        raise torch.OutOfMemoryError("tried to allocate 2 GiB")
    return stepped(self, update)


if os.environ["FAULT"] == "averages":
    summed, restored = replicas.Replicas.add_gradients, checkpoint.restore
    replicas.Replicas.add_gradients = averages  # type: ignore[method-assign]
    checkpoint.restore = without_moments
else:
    stepped = Session.step
    Session.step = runs_out  # type: ignore[method-assign]
if __name__ == "__main__":
    replicas.leave(replica.main(sys.argv[1:]))
