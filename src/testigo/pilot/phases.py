"""One row a phase: inputs, seconds, memory: the level before, then the absolute peak, after synchronisation."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import psutil

from testigo.gates.memory import MemoryEvidence
from testigo.model.device import is_out_of_memory, memory_now, memory_peak, reset_peak, synchronise


@dataclass(frozen=True)
class PhaseRow:
    """What a phase took [bytes, seconds]. Allocated and reserved are None on a CPU; they are never added.

    Where several processes went through it together, the row is that of the one with the highest peak, and `processes`
    has the peaks of all.
    """

    phase: str
    inputs: str
    allocated_before_bytes: int | None
    allocated_peak_bytes: int | None
    reserved_before_bytes: int | None
    reserved_peak_bytes: int | None
    resident_before_bytes: int
    resident_peak_bytes: int
    seconds: float
    processes: tuple[dict[str, int | None], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        values = asdict(self)
        if not self.processes:
            del values["processes"]
        return values


class OutOfMemory(Exception):
    """A phase ran out of memory; its evidence is collected."""


class Phases:
    """The rows so far, and the out-of-memory evidence if there is any."""

    def __init__(self, on_change: Callable[[], object] = lambda: None, named: Mapping[str, str] | None = None) -> None:
        self.rows: list[PhaseRow] = []
        self.memory: list[MemoryEvidence] = []
        self.now = ""
        self.start_seconds = max(0.0, time.time() - psutil.Process().create_time())
        """What the start of the process took, before the first phase."""
        self._on_change = on_change
        self._named = named or {}

    def add(self, row: PhaseRow) -> None:
        """A row that other processes measured."""
        self.rows.append(row)
        self._on_change()

    def tell_of(self, phase: str) -> None:
        """What other processes are at."""
        if phase and phase != self.now:
            self.now = phase
            self._on_change()

    @contextlib.contextmanager
    def measure(
        self, phase: str, inputs: str, *, rows: tuple[str, ...] = (), tokens: int | None = None
    ) -> Iterator[None]:
        """Measure what happens inside, under the phase's name or the one that `named` gives it.

        Raises
        ------
        OutOfMemory
            When the allocator had no more; phase and input are kept for the gate.
        """
        phase = self._named.get(phase, phase)
        self.now = phase
        self._on_change()
        synchronise()
        reset_peak()
        before, began = memory_now(), time.perf_counter()
        failure: Exception | None = None
        try:
            yield
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            failure = error
        peak = memory_peak()
        self.rows.append(
            PhaseRow(
                phase,
                inputs,
                before.allocated_bytes,
                peak.allocated_bytes,
                before.reserved_bytes,
                peak.reserved_bytes,
                before.resident_bytes,
                peak.resident_bytes,
                time.perf_counter() - began,
            )
        )
        message = str(failure).splitlines()[0] if failure and str(failure) else ""
        self.memory.append(
            MemoryEvidence(phase=phase, failed=failure is not None, rows=rows, tokens=tokens, message=message)
        )
        self._on_change()
        if failure is not None:
            raise OutOfMemory(phase) from failure
