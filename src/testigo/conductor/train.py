"""A run, recorded before it starts, from where it stood to its end."""

from __future__ import annotations

import fcntl
import time
from contextlib import nullcontext, suppress
from typing import Any

from testigo.campaign import Campaign, PlannedRun, planned_runs
from testigo.conductor.grounds import Grounds
from testigo.errors import Interrupted, LedgerError, TestigoError, WorkspaceError
from testigo.ledger import kinds
from testigo.room import at_once as without_waiting
from testigo.training import start
from testigo.training.launchers import HERE, Placement, local
from testigo.training.order import Order
from testigo.training.start import Work

# A worker whose starter was killed ends after its update or validation; this is how long the next start waits for it.
PATIENCE_SECONDS = 600.0
ATTEMPTS = 3
"""How often a run is begun in one start of the campaign when the nodes under it are lost."""


def train(grounds: Grounds, planned: PlannedRun, *, placement: Placement = HERE) -> Work[None]:
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
    for attempts_left in reversed(range(ATTEMPTS)):
        try:
            result = yield from start.train(
                path,
                n_updates=n_updates(planned.campaign, grounds.corpus.counts["train"]),
                reporter=grounds.reporter,
                on_start=lambda pid, host: ledger.start_run(spec.run_id, pid=pid, host=host),
                placement=placement,
            )
            return _record(grounds, spec.run_id, result)
        except (TestigoError, local.WorkerDied, OSError, KeyboardInterrupt, GeneratorExit) as stopped:
            if isinstance(stopped, local.WorkerDied) and stopped.for_memory:
                return _record(grounds, spec.run_id, {"state": "out-of-memory", "cause": str(stopped)})
            asked = isinstance(stopped, Interrupted | KeyboardInterrupt | GeneratorExit)
            # On a full disk the next start finds the process gone, and records it then.
            with suppress(LedgerError, OSError), without_waiting() if asked else nullcontext():
                _record(grounds, spec.run_id, {"state": "interrupted", "cause": _cause(stopped)})
            if not (isinstance(stopped, local.WorkerDied) and stopped.elsewhere and attempts_left):
                raise


def _record(grounds: Grounds, run: str, result: dict[str, Any]) -> None:
    """An end, with what the journal says of updates and seconds where the worker could not."""
    updates, seconds = grounds.progress_of(run) if "updates" not in result else (result["updates"], result["seconds"])
    told: dict[str, Any] = {"updates": updates, "seconds": seconds, "evidence": grounds.evidence_of(run)}
    grounds.ledger.end_run(run, state=result["state"], cause=result["cause"], **told)
    grounds.reporter.say(f"run {run}: {result['state']} ({result['cause']})")
    for name, told in result.get("trackers", {}).items():
        if told["dropped"] or told["error"]:
            grounds.record(kinds.TRACKER_LEFT_BEHIND, {"tracker": name, **told}, run=run, about=("tracker",))


def at_once(grounds: Grounds) -> int:
    """How many runs go on side by side; a cluster is given all of them, and says itself when each may begin."""
    machine = grounds.campaign.machine
    if machine.parallel != "auto":
        return machine.parallel
    if machine.launcher != "local":
        return len(planned_runs(grounds.campaign))
    return max(_n_accelerators() // machine.processes, 1)


def placement_at(place: int, grounds: Grounds) -> Placement:
    """Where the run of a place among those that go on is trained; runs that share several devices get their own.

    Raises
    ------
    WorkspaceError
        When there are fewer devices than processes.
    """
    machine = grounds.campaign.machine
    if machine.launcher != "local":
        return Placement(machine.launcher, None, machine.processes, machine.memory_gib, machine.slurm)
    n_devices = _n_accelerators()
    if 0 < n_devices < machine.processes:
        raise WorkspaceError(
            expected=f"a device for each of {machine.processes} processes",
            found=f"{n_devices} on this machine",
            where="machine.processes",
            action="lower it, and raise training.accumulation so that the examples per update stay",
        )
    if n_devices < 2 or at_once(grounds) < 2:
        return Placement(processes=machine.processes)
    first = place % (n_devices // machine.processes) * machine.processes
    return Placement(devices=range(first, first + machine.processes), processes=machine.processes)


def measured_at(grounds: Grounds) -> Placement:
    """Where baseline and pilot are measured: on the cluster that will train the runs, else in a process beside us.

    A verdict belongs to the platform that it was made on, and a login node has no GPU.
    """
    return HERE if grounds.campaign.machine.launcher == "local" else placement_at(0, grounds)


def _n_accelerators() -> int:
    from testigo.model.device import n_accelerators  # needs torch

    return n_accelerators()


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
    if run not in grounds.ledger.mark_dead(progress=grounds.progress_of, evidence=grounds.evidence_of):
        updates, seconds = grounds.progress_of(run)
        cause = "its process is gone: another host or container began it"
        told: dict[str, Any] = {"updates": updates, "seconds": seconds, "evidence": grounds.evidence_of(run)}
        grounds.ledger.end_run(run, state="interrupted", cause=cause, **told)


def _cause(stopped: BaseException) -> str:
    if isinstance(stopped, TestigoError) and not isinstance(stopped, Interrupted):
        return stopped.problems[0].found
    if isinstance(stopped, local.WorkerDied | OSError):
        return str(stopped)
    return "asked to stop"
