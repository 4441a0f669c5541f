"""A run, recorded before it starts, from where it stood to its end."""

from __future__ import annotations

import fcntl
import time
from contextlib import suppress
from typing import Any

from testigo.campaign import Campaign, PlannedRun
from testigo.conductor.grounds import Grounds
from testigo.errors import Interrupted, LedgerError, TestigoError, WorkspaceError
from testigo.training import start
from testigo.training.launchers import local
from testigo.training.order import Order
from testigo.training.start import Work

# A worker whose starter was killed ends after its update or validation; this is how long the next start waits for it.
PATIENCE_SECONDS = 600.0


def train(grounds: Grounds, planned: PlannedRun, *, device: int | None = None) -> Work[None]:
    """One run to its end, from where it stood. Every end is recorded, none is replaced.

    A worker that the system ended for want of memory is such an end too: the campaign goes on with the next run.

    Raises
    ------
    Interrupted, WorkerDied
        When the run was stopped from outside, or its process died.
    """
    spec, ledger = grounds.spec(planned), grounds.ledger
    run = ledger.plan_run(spec.run_id, variant=planned.variant, seed=planned.seed, defines=grounds.definition(planned))
    if run.state == "running":
        _wait_for(grounds, spec.run_id)
    elif run.state not in ("planned", "interrupted"):
        return
    path = spec.write(grounds.workspace.run(spec.run_id))
    try:
        result = yield from start.train(
            path,
            n_updates=n_updates(planned.campaign, grounds.corpus.counts["train"]),
            reporter=grounds.reporter,
            on_start=lambda pid: ledger.start_run(spec.run_id, pid=pid),
            device=device,
        )
    except (TestigoError, local.WorkerDied, OSError, KeyboardInterrupt, GeneratorExit) as stopped:
        if isinstance(stopped, local.WorkerDied) and stopped.for_memory:
            updates, seconds = grounds.progress_of(spec.run_id)
            result = {"state": "out-of-memory", "cause": str(stopped), "updates": updates, "seconds": seconds}
            return _record(grounds, spec.run_id, result)
        with suppress(LedgerError):  # a full disk: the next start finds the process gone, and records it then
            updates, seconds = grounds.progress_of(spec.run_id)
            ledger.end_run(spec.run_id, state="interrupted", cause=_cause(stopped), updates=updates, seconds=seconds)
        raise
    return _record(grounds, spec.run_id, result)


def _record(grounds: Grounds, run: str, result: dict[str, Any]) -> None:
    grounds.ledger.end_run(run, **{name: result[name] for name in ("state", "cause", "updates", "seconds")})
    grounds.reporter.say(f"run {run}: {result['state']} ({result['cause']})")


def at_once(grounds: Grounds) -> int:
    """How many runs go on side by side."""
    from testigo.model.device import n_accelerators  # needs torch

    wanted = grounds.campaign.machine.parallel
    return max(n_accelerators(), 1) if wanted == "auto" else wanted


def device_at(place: int, grounds: Grounds) -> int | None:
    """The accelerator of a run's place among those that go on; None where runs need not share several."""
    from testigo.model.device import n_accelerators

    n_devices = n_accelerators()
    return place % n_devices if n_devices > 1 and at_once(grounds) > 1 else None


def n_updates(campaign: Campaign, n_rows: int) -> int:
    """How many updates a run plans."""
    training = campaign.training
    return Order.planned(
        n_rows=n_rows,
        microbatch=training.microbatch,
        accumulation=training.accumulation,
        replicas=campaign.machine.processes,
        seed=0,
        updates=training.updates,
        epochs=training.epochs,
    ).n_updates


def _wait_for(grounds: Grounds, run: str) -> None:
    """Until nobody works on a run that the ledger calls running; then it is interrupted, whoever began it, wherever."""
    folder = grounds.workspace.run(run)
    folder.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + PATIENCE_SECONDS
    with (folder / "worker.lock").open("w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise WorkspaceError(
                        expected="no other process on this run",
                        found="a process that still works on it",
                        where=f"run {run} in {grounds.workspace.root}",
                        action="wait until it has ended, or stop it",
                    ) from None
                time.sleep(0.5)
    if run not in grounds.ledger.mark_dead(progress=grounds.progress_of):
        updates, seconds = grounds.progress_of(run)
        cause = "its process is gone: another host or container began it"
        grounds.ledger.end_run(run, state="interrupted", cause=cause, updates=updates, seconds=seconds)


def _cause(stopped: BaseException) -> str:
    if isinstance(stopped, TestigoError) and not isinstance(stopped, Interrupted):
        return stopped.problems[0].found
    if isinstance(stopped, local.WorkerDied | OSError):
        return str(stopped)
    return "asked to stop"
