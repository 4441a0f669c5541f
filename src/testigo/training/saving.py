"""Checkpoints written beside the training: a snapshot is taken at once, a thread does the rest.

Copying the tensors is all that the training waits for. Where the main memory has no room for the copy, it waits until
the tensors themselves are written. One checkpoint is written at a time: the next begins when the former is whole.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil
import torch

from testigo.room import await_room, need, somebody_waits, when_there_is_room
from testigo.training import checkpoint

Tensors = Mapping[str, torch.Tensor]

_SHARE_OF_FREE_MEMORY = 0.5
"""A snapshot takes at most this share of the memory that is free, so that the training keeps what it may need."""
_REST_BYTES = 64 << 10
"""Beside the tensors: names, state, checksums, and the line of an update."""


class Saver:
    """Writes the checkpoints of one run, and deletes those that are no longer kept.

    Attributes
    ----------
    seconds
        That the training waited for saving.
    """

    def __init__(self, folder: Path, *, keep: int, run: str) -> None:
        self.folder, self._keep, self._run = folder, keep, run
        self.seconds = 0.0
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._holds_the_tensors = False
        self._bytes_of_the_last = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for what was begun; an error that is on its way already is not replaced by another."""
        try:
            self.finish()
        except Exception:
            if error is None:
                raise

    def has_room_for_a_copy(self, n_bytes: int) -> bool:
        """Whether a copy of the tensors leaves the training what it may need; waits for the checkpoint before.

        Raises
        ------
        WorkspaceError
            When the checkpoint before could not be written.
        """
        self.finish()
        return n_bytes <= _SHARE_OF_FREE_MEMORY * _free_memory_bytes()

    def begin(
        self,
        update: int,
        weights: Tensors,
        moments: Tensors,
        state: Mapping[str, Any],
        best: int | None,
        *,
        copied: bool,
    ) -> None:
        """Begin to write a checkpoint; waits for the one before.

        Parameters
        ----------
        best
            The update of the best checkpoint, which stays.
        copied
            Whether the tensors are a copy that nothing changes; else the training is held until they are written.

        Raises
        ------
        WorkspaceError
            When the checkpoint before could not be written.
        """
        self.finish()
        self._holds_the_tensors = not copied
        plain = json.loads(json.dumps(state))  # what a checkpoint says does not go on while it is written

        def write() -> None:
            self._write(update, weights, moments, {**plain, "run": self._run}, best)

        self._thread = threading.Thread(target=self._caught(write), name=f"checkpoint {update}")
        self._thread.start()

    @property
    def holds_the_training(self) -> bool:
        """Whether the training has to wait: the tensors themselves are being written, or there is no room for them.

        Raises
        ------
        WorkspaceError
            When the checkpoint could not be written.
        """
        if self._thread is None:
            return False
        if not self._thread.is_alive():
            self.finish()
            return False
        return self._holds_the_tensors or somebody_waits()

    def finish(self) -> None:
        """Wait until what was begun is whole on the disk.

        Raises
        ------
        WorkspaceError
            When it could not be written.
        """
        if self._thread is None:
            return
        began = time.perf_counter()
        self._thread.join()
        self.seconds += time.perf_counter() - began
        self._thread, error, self._error = None, self._error, None
        if error is not None:
            raise error

    def forecast(self, one: int, n_saves: int) -> None:
        """Wait until the disk has room for all that the run will keep at once.

        Parameters
        ----------
        one
            What a checkpoint takes [bytes]; the newest on the disk is measured where there is one.
        n_saves
            How many are still to come at most.
        """
        there = checkpoint.names_in(self.folder)
        if there:
            self._bytes_of_the_last = _bytes_of(self.folder / there[-1])
        # The best beside the last ones, and the one that is being written.
        more = min(self._keep + 2 - len(there), n_saves)
        if more > 0:
            await_room(
                self.folder, more * (max(one, self._bytes_of_the_last) + _REST_BYTES), what_for=f"{more} checkpoints"
            )

    def _write(self, update: int, weights: Tensors, moments: Tensors, state: dict[str, Any], best: int | None) -> None:
        wanted = max(_n_bytes([*weights.values(), *moments.values()]), self._bytes_of_the_last) + _REST_BYTES

        def save() -> Path:
            need(self.folder, wanted, what_for=f"the checkpoint of update {update}")
            return checkpoint.save(self.folder, update, weights, moments, state)

        saved = when_there_is_room(save, self.folder, wanted_bytes=wanted)
        self._bytes_of_the_last = _bytes_of(saved)
        checkpoint.prune(self.folder, keep=self._keep, best_update=best)

    def _caught(self, work: Callable[[], None]) -> Callable[[], None]:
        """Work whose error is kept for the training to find."""

        def run() -> None:
            try:
                work()
            except BaseException as error:
                self._error = error

        return run


def _free_memory_bytes() -> int:
    """What this machine has left, or this control group where it has less."""
    free = psutil.virtual_memory().available
    with suppress(OSError, ValueError):
        group = Path("/sys/fs/cgroup")
        limit, used = ((group / name).read_text(encoding="ascii") for name in ("memory.max", "memory.current"))
        free = min(free, int(limit) - int(used))
    return int(free)


def _n_bytes(tensors: list[torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _bytes_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())
