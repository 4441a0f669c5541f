"""The process of one run: ``python -m testigo.training.worker RUN_DIR/spec.json``.

It resumes when it finds a checkpoint, writes `steps.jsonl` and `findings.jsonl` while it goes, and ends with
`result.json`. Exit codes: 0 the run ended in a state of its own, 2 the input was wrong, 3 interrupted.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testigo.disk import working_in, write_json
from testigo.errors import TestigoError, exit_code_of
from testigo.model.starter import is_orphaned
from testigo.room import Notice, is_full, patient
from testigo.training.progress import ENDED_WELL

if TYPE_CHECKING:
    from testigo.rules import Finding
    from testigo.training.loop import Session
    from testigo.training.progress import Outcome
    from testigo.training.replicas import Replicas


def run(spec_path: Path, *, stop: threading.Event) -> Outcome:
    """Train what the spec says, from the newest whole checkpoint on.

    One worker at a time: when whoever started a worker is killed, the worker saves and ends by itself, and the next one
    waits for that.

    Raises
    ------
    WorkspaceError
        When the disk is full or not writable.
    """
    folder = spec_path.parent

    def stop_requested() -> bool:
        return stop.is_set() or is_orphaned()

    with working_in(folder), (folder / "worker.lock").open("w") as lock:
        is_first = os.environ.get("RANK", "0") == "0"
        if is_first:  # of several processes of one run the first holds it
            fcntl.flock(lock, fcntl.LOCK_EX)
        with patient(Notice(folder) if is_first else lambda shortage: None, stop_requested):
            return _train(spec_path, stop_requested=stop_requested)


def _train(spec_path: Path, *, stop_requested: Callable[[], bool]) -> Outcome:
    from testigo.training.spec import RunSpec

    spec, folder = RunSpec.read(spec_path), spec_path.parent
    # Imported here, so that whoever stops or loses this process while the libraries load is heard.
    from testigo.corpus import open_corpus
    from testigo.model.device import is_out_of_memory, platform_description
    from testigo.model.digest import weights_sha256
    from testigo.training import replicas
    from testigo.training.checkpoint import names_in
    from testigo.training.prepare import prepare, session
    from testigo.training.progress import Outcome
    from testigo.watch.trackers import Followers, findings_of, follow

    if stop_requested():
        return Outcome("interrupted", "asked to stop before the first update")
    spec.check(open_corpus(Path(spec.corpus)).fingerprint)
    own = replicas.begin()
    prepared = prepare(spec, own)
    work = session(spec, prepared, folder, own)
    work.stop_requested = stop_requested
    initial = weights_sha256(work.parameters)
    attempt = own.from_first(_count_attempt(folder))
    passed_over = work.resume(attempt)
    followers = Followers((), folder)
    if own.is_first:
        if spec.rows is None:  # the pilot's runs are nobody's curves
            followers = follow(prepared.settings, folder, run=spec.run_id, variant=spec.variant, seed=spec.seed)
            work.journal.listeners.append(followers)
        resumed = {
            "attempt": attempt,
            "from_update": work.progress.update,
            "initial_weights_sha256": initial,
            "platform": platform_description(),
            "passed_over": [{"checkpoint": p.name, "why": p.why} for p in passed_over],
        }
        write_json(folder / "resume.json", resumed)
    with followers:
        try:
            outcome = work.run()
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            why, *_ = (str(error) or "no more memory").splitlines()
            outcome = Outcome("out-of-memory", f"update {work.progress.update + 1}: {why}")
            if own.n > 1:  # the others wait for this process and cannot be asked: its word ends the run
                write_json(folder / "result.json", _result(work, outcome))
                raise
        except (OSError, TestigoError) as error:
            if not (is_full(error) and stop_requested()):
                raise
            kept = names_in(work.checkpoints)
            outcome = Outcome(
                "interrupted", f"asked to stop while the disk was full; update {int(kept[-1]) if kept else 0} is kept"
            )
    result = _result(work, outcome)
    if own.is_first:
        result["trackers"] = followers.end(well=outcome.state in ENDED_WELL)
        found = findings_of(result["trackers"])
    _tell(own, work, result, found if own.is_first else ())
    replicas.end()
    return outcome


def _tell(own: Replicas, work: Session, result: dict[str, Any], found: Sequence[Finding]) -> None:
    """Write how the run ended. On a disk that is full an interruption is told by the exit code alone."""
    try:
        for finding in found:
            work.journal.finding(finding, work.progress.update)
        if own.is_first:
            write_json(work.folder / "result.json", result)
    except OSError as error:
        if not is_full(error) or result["state"] != "interrupted":
            raise
        if own.n > 1:  # the others wait where this process left them, and are ended with it
            from testigo.training.replicas import leave

            leave(3)


def _result(work: Session, outcome: Outcome) -> dict[str, Any]:
    from testigo.model.adapter import trained
    from testigo.model.device import platform_description, versions
    from testigo.model.digest import weights_sha256

    progress = work.progress
    finite = outcome.state in ENDED_WELL
    return {
        "state": outcome.state,
        "cause": outcome.cause,
        "updates": progress.update,
        "best_update": progress.best_update,
        "best_validation_loss": progress.best_loss if progress.best_update is not None else None,
        "final_weights_sha256": weights_sha256(work.parameters) if finite else None,
        "trained": trained(work.model).to_json(),
        "trained_names": list(work.parameters),
        "seconds": progress.seconds - work.seconds_before,
        "saving_seconds": work.saver.seconds,
        "supervised_tokens": progress.supervised_tokens,
        "examples": progress.examples,
        "origin": asdict(work.origin) if work.origin is not None else None,
        "versions": versions(),
        "platform": platform_description(),
    }


def _count_attempt(folder: Path) -> int:
    path = folder / "resume.json"
    return 1 + (json.loads(path.read_text(encoding="utf-8"))["attempt"] if path.exists() else 0)


def main(arguments: list[str]) -> int:
    """Run one spec; a user's error is one JSON line on standard error."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return exit_code_of(lambda: 3 if run(Path(arguments[0]), stop=stop).state == "interrupted" else 0)


if __name__ == "__main__":
    exit_code = main(sys.argv[1:])
    if os.environ.get("WORLD_SIZE", "1") != "1":
        from testigo.training.replicas import leave

        leave(exit_code)
    sys.exit(exit_code)
