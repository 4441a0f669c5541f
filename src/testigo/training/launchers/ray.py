"""Tasks of a Ray cluster: that of `RAY_ADDRESS`, one that runs on this machine, or one that is started for it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testigo.errors import TestigoError
from testigo.ray_cluster import connect
from testigo.training.launchers import node
from testigo.training.launchers.placement import Placement

_GIB = 1 << 30


@dataclass(frozen=True)
class RayTask:
    """A task that Ray runs once; a second attempt is ours to record."""

    ray: Any
    reference: Any

    def is_done(self, wait_seconds: float) -> bool:
        """Whether it has ended, after waiting for so long [s]."""
        return bool(self.ray.wait([self.reference], timeout=wait_seconds)[0])

    def result(self) -> dict[str, Any] | None:
        """What the node told; None when it was lost."""
        lost = (
            self.ray.exceptions.WorkerCrashedError,
            self.ray.exceptions.NodeDiedError,
            self.ray.exceptions.ObjectLostError,
            self.ray.exceptions.LocalRayletDiedError,
            self.ray.exceptions.OutOfMemoryError,
        )
        try:
            told: dict[str, Any] = self.ray.get(self.reference)
        except lost:
            return None
        return told

    def cancel(self) -> None:
        """The worker gets a signal, saves and ends."""
        self.ray.cancel(self.reference, force=False)


def submit(placement: Placement, command: list[str], log: Path) -> RayTask:
    """Hand a worker over; it waits until the cluster has a GPU for each of its processes.

    Raises
    ------
    TestigoError
        When no cluster answers, or when it can never give what the worker asks for.
    """
    ray = connect(TestigoError, needed_for="runs workers on a cluster", otherwise="machine.launcher: local")
    has_gpus = ray.cluster_resources().get("GPU", 0) > 0
    asked: dict[str, Any] = {"num_cpus": placement.processes, "max_retries": 0}
    if has_gpus:
        asked["num_gpus"] = placement.processes
    if placement.memory_gib:
        asked["memory"] = int(placement.memory_gib * _GIB)
    _refuse_what_no_node_has(ray, asked)
    return RayTask(ray, ray.remote(node.work).options(**asked).remote(command, str(log)))


def _refuse_what_no_node_has(ray: Any, asked: dict[str, Any]) -> None:
    names = {"num_cpus": "CPU", "num_gpus": "GPU", "memory": "memory"}
    wanted = {names[name]: value for name, value in asked.items() if name in names}
    nodes = [one["Resources"] for one in ray.nodes() if one["Alive"]]
    if not any(all(own.get(name, 0) >= value for name, value in wanted.items()) for own in nodes):
        raise TestigoError(
            expected=f"a node with {', '.join(f'{value:g} {name}' for name, value in wanted.items())}",
            found=f"{len(nodes)} nodes, none of which has them",
            where="machine, on the Ray cluster",
            action="lower machine.processes or machine.memory_gib, or add such a node",
        )
