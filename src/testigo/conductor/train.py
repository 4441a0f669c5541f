"""One run after the other, each recorded before it starts."""

from __future__ import annotations

import fcntl
import time
from contextlib import suppress

from testigo.campaign import Campaign, PlannedRun
from testigo.conductor.grounds import Grounds
from testigo.errors import Interrupted, LedgerError, TestigoError, WorkspaceError
from testigo.training import start
from testigo.training.launchers import local
from testigo.training.order import Order

# A worker whose starter was killed ends after its update or validation; this is how long the next start waits for it.
PATIENCE_SECONDS = 600.0


def train(grounds: Grounds, planned: PlannedRun) -> None:
    """One run to its end, from where it stood. Every end is recorded, none is replaced.

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
        result = start.train(
            path,
            n_updates=n_updates(planned.campaign, grounds.corpus.counts["train"]),
            reporter=grounds.reporter,
            on_start=lambda pid: ledger.start_run(spec.run_id, pid=pid),
        )
    except (TestigoError, local.WorkerDied, OSError, KeyboardInterrupt) as stopped:
        with suppress(LedgerError):  # a full disk: the next start finds the process gone, and records it then
            updates, seconds = grounds.progress_of(spec.run_id)
            ledger.end_run(spec.run_id, state="interrupted", cause=_cause(stopped), updates=updates, seconds=seconds)
        raise
    ended = {name: result[name] for name in ("state", "cause", "updates", "seconds")}
    ledger.end_run(spec.run_id, **ended)
    grounds.reporter.say(f"run {spec.run_id}: {result['state']} ({result['cause']})")


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
