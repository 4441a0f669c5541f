"""Which process wrote something, and whether it is still there."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path

import psutil


@dataclass(frozen=True)
class ProcessMark:
    """What tells one process from every other: a pid alone is used again.

    `started` is the process's start in clock ticks since the boot on Linux (it does not move when the clock is set),
    elsewhere its start time in seconds; None when the process was already gone or is on another host.
    """

    host: str
    boot: str | None
    pid: int
    started: float | None


def this_process(pid: int | None = None, host: str | None = None) -> ProcessMark:
    """The mark of this process, or of another one on this host. Of a process elsewhere only host and pid are known."""
    here = socket.gethostname()
    pid = os.getpid() if pid is None else pid
    if host is not None and host != here:
        return ProcessMark(host, None, pid, None)
    return ProcessMark(here, _boot(), pid, _started(pid))


def process_is_alive(mark: ProcessMark) -> bool | None:
    """True or False on this host, None when the process belongs to another host and cannot be seen."""
    if mark.host != socket.gethostname():
        return None
    if mark.boot != _boot() or mark.started is None:
        return False
    return _started(mark.pid) == mark.started


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return f"boot {round(psutil.boot_time())}"


def _started(pid: int) -> float | None:
    """When a process started, None when there is none. A zombie is dead: it only waits for its parent to look."""
    try:
        process = psutil.Process(pid)
        if process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
            return None
        stat = Path(f"/proc/{pid}/stat")
        if stat.exists():
            # psutil's create_time adds the wall clock's boot time, which moves when the clock is set.
            fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            return float(fields[19])  # field 22 of proc(5): start time in clock ticks after the boot
        return float(process.create_time())
    except (psutil.Error, OSError, ValueError):
        return None
