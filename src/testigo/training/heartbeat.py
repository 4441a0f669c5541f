"""Each process of a run tells that it lives and watches the next: one that stands still must not keep the rest waiting.

A process that dies closes its connections, which all others notice at once. One that is stopped, or whose machine is
gone, closes nothing, and the others would wait for it as long as the communication allows: half an hour with gloo.
"""

from __future__ import annotations

import os
import platform
import signal
import sys
import threading
from datetime import timedelta

import psutil
from torch._C._distributed_c10d import PrefixStore, TCPStore

EVERY_SECONDS = 2.0
SILENT_ROUNDS = 10
"""Own rounds without a word of the other, so that a machine that slept as a whole finds nothing when it wakes."""
_ENDED = "ended"


class Heartbeat:
    """A thread beside the training, over the store by which torchrun's processes found each other."""

    def __init__(self, rank: int, n: int) -> None:
        self.rank, self.n = rank, n
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Begin to tell and to watch."""
        self._thread.start()

    def end(self) -> None:
        """This process goes, as it should."""
        self._ended.set()
        self._thread.join(EVERY_SECONDS * SILENT_ROUNDS)

    def _beat(self) -> None:
        place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        patience = timedelta(seconds=EVERY_SECONDS * SILENT_ROUNDS)
        own = f"{platform.node()} {os.getpid()}"
        store, last, silent, rounds = None, "", 0, 0
        while not self._ended.wait(EVERY_SECONDS):
            rounds += 1
            try:
                if store is None:
                    client = TCPStore(*place, is_master=False, wait_for_workers=False, timeout=patience)
                    store = PrefixStore("testigo-heartbeat", client)
                store.set(str(self.rank), f"{own} {rounds}")
                told = self._of_the_next(store)
            except (RuntimeError, ValueError, OSError):  # whoever holds the store is gone, or does not answer
                store, told = None, last
            silent, last = (silent + 1 if told == last and told != _ENDED else 0), told
            if silent >= SILENT_ROUNDS:
                self._give_up(told)
        if store is not None:
            try:
                store.set(str(self.rank), _ENDED)
            except (RuntimeError, ValueError, OSError):
                return

    def _of_the_next(self, store: PrefixStore) -> str:
        """What the next process said last; nothing while it has not begun."""
        key = str((self.rank + 1) % self.n)
        return store.get(key).decode() if store.check([key]) else ""

    def _give_up(self, told: str) -> None:
        """End the silent process where it is one of ours; else this one, since the other cannot be reached."""
        seconds, other = EVERY_SECONDS * SILENT_ROUNDS, (self.rank + 1) % self.n
        print(
            f"process {other} has been silent for {seconds:.0f} s: the run is interrupted", file=sys.stderr, flush=True
        )
        host, pid, *_ = [*told.split(), "", ""]
        reached = host == platform.node() and _is_child_of(int(pid), os.getppid())
        os.kill(int(pid) if reached else os.getpid(), signal.SIGKILL)


def _is_child_of(pid: int, starter: int) -> bool:
    try:
        return psutil.Process(pid).ppid() == starter
    except psutil.Error:
        return False
