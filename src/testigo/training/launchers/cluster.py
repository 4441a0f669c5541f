"""A worker as a task of a Ray cluster, or as a job of Slurm: handed over, waited for, and ended with its starter."""

from __future__ import annotations

import json
import time
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from testigo.errors import WorkspaceError
from testigo.training.launchers import local, node
from testigo.training.launchers.placement import OnStart, Placement

_LOOK_EVERY_SECONDS = 0.2


class Task(Protocol):
    """Something that a cluster does for us."""

    def is_done(self, wait_seconds: float) -> bool:
        """Whether it has ended, after waiting for so long [s]."""

    def result(self) -> dict[str, Any] | None:
        """What `node.work` told; None when the node was lost with it."""

    def cancel(self) -> None:
        """Ask it to end."""


def start(
    placement: Placement, module: str, *arguments: str, log: Path, on_start: OnStart
) -> Generator[None, None, None]:
    """As `placement.start` promises. A lost node is told as a worker that was killed, elsewhere.

    Raises
    ------
    WorkspaceError
        When the node does not see the workspace.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    log = log.resolve()
    begin = log.stat().st_size if log.exists() else 0
    told = log.with_name(node.TOLD)
    told.unlink(missing_ok=True)
    task = _submit(placement, [module, *arguments], log)
    is_told = False
    try:
        while not task.is_done(_LOOK_EVERY_SECONDS):
            is_told = is_told or _tell(told, on_start)
            yield
        _ = is_told or _tell(told, on_start)
        ended = task.result()
    except BaseException:
        _end(task, told)
        raise
    if ended is None:
        raise local.WorkerDied(-9, log, elsewhere=True)
    if ended["exit_code"] == node.MISSING:
        raise WorkspaceError(
            expected="a workspace that the nodes of the cluster see",
            found=f"{ended['host']} does not see it",
            where=str(log.parent),
            action="put workspace, campaign and base on a shared file system, or set machine.launcher: local",
        )
    local.judge_end(ended["exit_code"], log, begin, for_memory=ended["for_memory"])


def _submit(placement: Placement, command: list[str], log: Path) -> Task:
    if placement.launcher == "ray":
        from testigo.training.launchers import ray

        return ray.submit(placement, command, log)
    from testigo.training.launchers import slurm

    return slurm.submit(placement, command, log)


def _tell(told: Path, on_start: OnStart) -> bool:
    worker = _worker(told)
    if worker:
        on_start(int(worker["pid"]), str(worker["host"]))
    return bool(worker)


def _worker(told: Path) -> dict[str, Any]:
    """What the node tells of its worker; empty before it has begun."""
    with suppress(OSError, ValueError):
        worker: dict[str, Any] = json.loads(told.read_text(encoding="utf-8"))
        return worker
    return {}


def _end(task: Task, told: Path) -> None:
    """Ask, and wait as long as a worker may need to save."""
    with suppress(Exception):
        task.cancel()
        until = time.monotonic() + local.GRACE_SECONDS
        while (
            not _worker(told).get("ended", True) or not task.is_done(_LOOK_EVERY_SECONDS)
        ) and time.monotonic() < until:
            time.sleep(_LOOK_EVERY_SECONDS)
