"""Where a worker is started, and with what of the machine."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol


class OnStart(Protocol):
    """Who is told that a worker has begun."""

    def __call__(self, pid: int, host: str | None) -> object:
        """The worker's process id, and its host where that is another one."""


@dataclass(frozen=True)
class Placement:
    """What a worker gets.

    Attributes
    ----------
    devices
        The accelerators that a worker on this machine sees, by their numbers; None shows all.
    processes
        How many train one run together; on a cluster each asks for a GPU, where there are any.
    memory_gib
        What a worker asks a cluster for [GiB].
    slurm
        Parameters of the job, by submitit's names.
    """

    launcher: Literal["local", "ray", "slurm"] = "local"
    devices: Sequence[int] | None = None
    processes: int = 1
    memory_gib: float | None = None
    slurm: Mapping[str, Any] = field(default_factory=dict)


HERE = Placement()
"""On this machine, which it sees whole."""


def start(
    placement: Placement, module: str, *arguments: str, log: Path, on_start: OnStart
) -> Generator[None, None, None]:
    """Start ``python -m MODULE ARGUMENTS`` where it belongs, and yield some times a second until it ends.

    Raises
    ------
    TestigoError
        The user's error that the worker reported.
    Interrupted
        When the worker saved and ended because it was asked to.
    WorkerDied
        When it ended without either.
    """
    if placement.launcher == "local":
        from testigo.training.launchers import local

        return local.start(
            module, *arguments, log=log, on_start=lambda pid: on_start(pid, None), devices=placement.devices
        )
    from testigo.training.launchers import cluster

    return cluster.start(placement, module, *arguments, log=log, on_start=on_start)
