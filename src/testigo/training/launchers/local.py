"""A worker as a child process on this machine."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path

from testigo.errors import Interrupted, reported_in
from testigo.model.starter import STARTER
from testigo.ray_cluster import SILENT

# Usage reports of the libraries are off for every worker: nothing leaves the machine. Threads that wait spin for less
# than a millisecond: with OpenMP's default they take a busy machine's cores from those that work, and where they sleep
# at once an update takes half as long again (docs/log.md).
ENVIRONMENT = {
    **SILENT,
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "PYTHONUNBUFFERED": "1",
    "GOMP_SPINCOUNT": "10000",
}
_REPORTS = ("HF_HUB_OFFLINE", *SILENT)
GRACE_SECONDS = 30.0
VISIBLE = "CUDA_VISIBLE_DEVICES"
Devices = Sequence[int] | None
"""Numbers of accelerators; None stands for all."""


def environment() -> dict[str, str]:
    """What every worker finds: the user's own variables win, but for the usage reports.

    Workers are offline: whoever starts them has already fetched what a campaign names.
    """
    found = {**ENVIRONMENT, **os.environ, **{name: ENVIRONMENT[name] for name in _REPORTS}}
    if "OMP_WAIT_POLICY" in os.environ and "GOMP_SPINCOUNT" not in os.environ:
        del found["GOMP_SPINCOUNT"]  # it would win over the policy that the user named
    return found


def only(devices: Devices) -> dict[str, str]:
    """The variables that show a process some accelerators alone: CUDA's, which ROCm reads too."""
    if devices is None:
        return {}
    seen = [name for name in os.environ.get(VISIBLE, "").split(",") if name]
    return {VISIBLE: ",".join(seen[number] if number < len(seen) else str(number) for number in devices)}


class WorkerDied(Exception):
    """A worker ended without a result: by a signal, or by an error of ours. The log has its last words."""

    def __init__(self, exit_code: int, log: Path, *, for_memory: bool = False, elsewhere: bool = False) -> None:
        self.exit_code, self.log, self.for_memory, self.elsewhere = exit_code, log, for_memory, elsewhere
        how = signal.Signals(-exit_code).name if exit_code < 0 else f"exit code {exit_code}"
        why = ": the system's memory had run out" if for_memory else ""
        how = "the loss of its node" if elsewhere else how
        super().__init__(f"the worker ended by {how}{why}; its last words are in {log}")


def n_killed_for_memory() -> int:
    """How many processes the system has ended for want of memory, in this control group and on this machine together.

    What counts is whether it grows while a worker dies by SIGKILL.
    """
    n_killed = 0
    for path in (*_own_groups(), Path("/proc/vmstat")):
        with contextlib.suppress(OSError):
            lines = path.read_text(encoding="ascii").splitlines()
            n_killed += sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))
    return n_killed


def _own_groups() -> Iterator[Path]:
    """Where the memory controller of this process keeps its counts: version 2, then version 1 of control groups."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines():
            _, controllers, place = line.split(":", 2)
            if not controllers:
                yield Path(f"/sys/fs/cgroup{place}/memory.events")
            elif "memory" in controllers.split(","):
                yield Path(f"/sys/fs/cgroup/memory{place}/memory.oom_control")


def interrupted(number: int, where: Path) -> Interrupted:
    """The error of a process that a signal ended."""
    return Interrupted(
        expected="a process that goes on to its end",
        found=f"it was ended by {signal.Signals(number).name}",
        where=str(where),
        action="run the same command again to go on",
    )


def start(
    module: str,
    *arguments: str,
    log: Path,
    on_start: Callable[[int], object] = lambda pid: None,
    devices: Devices = None,
) -> Generator[None, None, None]:
    """Start ``python -m MODULE ARGUMENTS`` and yield about five times a second until it ends.

    The caller reads what the worker writes between yields. Standard output and error go to `log`. When the caller is
    interrupted, the worker is asked to save and end, and gets 30 seconds for it.

    Parameters
    ----------
    devices
        The accelerators that the worker sees, by their numbers among those that this process sees; None shows all.

    Raises
    ------
    TestigoError
        The user's error that the worker reported.
    Interrupted
        When the worker saved and ended because it was asked to.
    WorkerDied
        When it ended without either.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    killed_before = n_killed_for_memory()
    with log.open("ab") as out:
        begin = out.tell()
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**environment(), **only(devices), STARTER: str(os.getpid())},
            start_new_session=True,  # the terminal's Ctrl-C reaches us alone, and we pass it on once
        )
        try:
            on_start(process.pid)
            while process.poll() is None:
                yield
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(0.2)
        finally:
            _end(process)
    for_memory = process.returncode == -signal.SIGKILL and n_killed_for_memory() > killed_before
    judge_end(process.returncode, log, begin, for_memory=for_memory)


def judge_end(exit_code: int, log: Path, begin: int, *, for_memory: bool = False) -> None:
    """Raise what a worker's end means; nothing when it ended well.

    Parameters
    ----------
    begin
        Where in the log its words begin [bytes].
    """
    if exit_code == 0:
        return
    with log.open("rb") as file:
        file.seek(begin)
        error = reported_in(file.read().decode("utf-8", "replace"))
    if error is not None:
        raise error
    if exit_code == 3:
        raise Interrupted(
            expected="the run to go on to its end",
            found="it was asked to stop; it saved a checkpoint",
            where=str(log.parent),
            action="run the same command again to go on",
        )
    raise WorkerDied(exit_code, log, for_memory=for_memory)


def finish(module: str, *arguments: str, log: Path, on_start: Callable[[int], object] = lambda pid: None) -> None:
    """Start a worker and wait for its end."""
    for _ in start(module, *arguments, log=log, on_start=on_start):
        pass


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    process.terminate()
    until = time.monotonic() + GRACE_SECONDS
    while process.poll() is None and time.monotonic() < until:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.2)
    if process.poll() is None:
        process.kill()
        process.wait()
