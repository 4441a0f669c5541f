"""Jobs of Slurm, by submitit."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testigo.errors import MissingExtra, TestigoError
from testigo.training.launchers import node
from testigo.training.launchers.placement import Placement


@dataclass(frozen=True)
class SlurmJob:
    """One job; Slurm may stop it at any time, and a new attempt goes on."""

    job: Any

    def is_done(self, wait_seconds: float) -> bool:
        """Whether it has ended, after waiting for so long [s]."""
        until = time.monotonic() + wait_seconds
        while not self.job.done():
            if time.monotonic() > until:
                return False
            time.sleep(min(0.05, wait_seconds))
        return True

    def result(self) -> dict[str, Any] | None:
        """What the node told; None when the job ended without a word."""
        import submitit

        try:
            told: dict[str, Any] = self.job.result()
        except submitit.core.utils.UncompletedJobError:
            return None
        return told

    def cancel(self) -> None:
        """The worker gets a signal, saves and ends."""
        self.job.cancel()


def submit(placement: Placement, command: list[str], log: Path) -> SlurmJob:
    """Hand a worker over as a job of its own.

    Raises
    ------
    TestigoError
        When there is no Slurm here, or when it does not know a parameter.
    """
    try:
        import submitit
    except ImportError as error:
        raise MissingExtra("slurm", "submitit", "runs workers as jobs of Slurm") from error
    settings = dict(placement.slurm)
    try:
        executor = submitit.AutoExecutor(folder=log.parent / "slurm", cluster=settings.pop("cluster", "slurm"))
        if placement.memory_gib:
            settings.setdefault("mem_gb", placement.memory_gib)
        executor.update_parameters(name=f"testigo-{log.parent.name}"[:60], **settings)
        return SlurmJob(executor.submit(node.work, command, str(log)))
    except (RuntimeError, NameError, TypeError, ValueError, AssertionError) as error:
        raise TestigoError(
            expected="a Slurm that takes the job",
            found=str(error).strip().splitlines()[0][:200] if str(error) else type(error).__name__,
            where="machine.slurm",
            action="run on a login node of the cluster, and use submitit's names of parameters",
        ) from error
