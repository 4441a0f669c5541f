"""The training phases of the pilot under the launch of the run: as many processes as the campaign declares."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import nn

from testigo.campaign import Campaign
from testigo.gates.memory import MemoryEvidence
from testigo.gates.processes import ProcessesEvidence
from testigo.model.device import device
from testigo.model.sharding import whole
from testigo.pilot.bench import gradients, relative_error
from testigo.pilot.phases import OutOfMemory, PhaseRow, Phases
from testigo.pilot.replica import GRADIENT, SAVED_AFTER, process_file
from testigo.training.launchers import local
from testigo.training.spec import RunSpec

FOLDER = "processes"
PHASES = ("load", "forward", "update-1", "update-2", "backward", "save", "resume")
_MODULE = "testigo.pilot.replica"


@dataclass(frozen=True)
class Together:
    """What the processes told, to be held against one process."""

    evidence: ProcessesEvidence
    folder: Path
    digests: tuple[str, ...]
    updates: Sequence[Mapping[str, Any]]

    @property
    def saved_after(self) -> int:
        """Updates before their checkpoint."""
        return min(SAVED_AFTER, len(self.updates))

    def beside_one(self, update: int, parameters: Mapping[str, nn.Parameter], line: Mapping[str, Any]) -> Together:
        """Held against an update of one process, whose gradient its parameters still have."""
        told = self.against_first_update(parameters, line) if update == 1 else self
        return told.against_weights(parameters) if update == self.saved_after else told

    def against_first_update(self, parameters: Mapping[str, nn.Parameter], line: Mapping[str, Any]) -> Together:
        """With the first update of one process."""
        first = self.updates[0]
        alone = gradients(dict(parameters))
        together = load_file(self.folder / GRADIENT)
        same = alone.keys() == together.keys()
        told = replace(
            self.evidence,
            gradient_error=relative_error(together, alone) if same else math.inf,
            loss_alone=line["loss"],
            loss_together=first["loss"],
            rows_equal=sorted(line["rows"]) == sorted(first["rows"]),
        )
        return replace(self, evidence=told)

    def against_weights(self, parameters: Mapping[str, nn.Parameter]) -> Together:
        """With the trained weights of one process after as many updates; nothing of theirs is needed after that."""
        checkpoints = self.folder / "resumed" / "checkpoints"
        kept = load_file(checkpoints / f"{self.saved_after:06d}" / "weights.safetensors")
        apart = [_apart(whole(parameters[name].detach()).to("cpu"), kept[name]) for name in kept if name in parameters]
        shutil.rmtree(checkpoints)
        (self.folder / GRADIENT).unlink()
        return replace(self, evidence=replace(self.evidence, weights_error=max(apart)))


def _apart(alone: Any, together: Any) -> float:
    largest = float(alone.abs().max())
    return float((alone - together).abs().max()) / largest if largest else 0.0


def collect(spec: RunSpec, settings: Campaign, folder: Path, phases: Phases) -> Together:
    """Train the first updates in all processes, and go on in fresh ones.

    Raises
    ------
    OutOfMemory
        When one of the processes had no more; phase and process are kept for the gate.
    """
    machine, place = settings.machine, folder / FOLDER
    shutil.rmtree(place, ignore_errors=True)
    _launch(spec, settings, place, phases)
    updates = json.loads((place / "updates.json").read_text(encoding="utf-8"))
    evidence = ProcessesEvidence(
        processes=machine.processes,
        strategy=machine.strategy,
        precision=settings.model.precision,
        device=device().type,
    )
    if len(updates["updates"]) > SAVED_AFTER:
        _launch(spec, settings, place / "resumed", phases)
        evidence = _resumed(evidence, updates, place / "resumed" / "updates.json")
    return Together(evidence, place, tuple(updates["weights"]), updates["updates"])


def _launch(spec: RunSpec, settings: Campaign, place: Path, phases: Phases) -> None:
    """All processes to their end; what they took joins the table, the fullest process of each phase."""
    processes = settings.machine.processes
    path = replace(spec, run_id=f"{spec.run_id}-pilot").write(place)
    command = ("testigo.training.launchers.torchrun", str(processes), str(path), _MODULE)
    try:
        for _ in local.start(*command, log=place / "log.txt"):
            phases.tell_of(_told(place, 0).get("now", ""))
    except local.WorkerDied as died:
        _add_rows(place, processes, phases)
        ran_out = [(rank, one) for rank in range(processes) for one in _told(place, rank).get("ran_out", ())]
        if died.for_memory and not ran_out:
            ran_out = [(0, {"phase": _told(place, 0).get("now", "load"), "message": str(died)})]
        if not ran_out:
            raise
        rank, first = ran_out[0]
        message = f"process {rank} of {processes}: {first['message']}"
        phases.memory.append(MemoryEvidence(phase=first["phase"], failed=True, message=message))
        raise OutOfMemory(first["phase"]) from died
    _add_rows(place, processes, phases)


def _told(place: Path, rank: int) -> dict[str, Any]:
    try:
        told: dict[str, Any] = json.loads(process_file(place, rank).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return told


def _add_rows(place: Path, processes: int, phases: Phases) -> None:
    """Of each phase the row of the process with the highest peak, and the longest time of any."""
    by_phase: dict[str, list[PhaseRow]] = {}
    for rank in range(processes):
        for told in _told(place, rank).get("phases", ()):
            by_phase.setdefault(told["phase"], []).append(PhaseRow(**told))
    for phase, rows in by_phase.items():
        fullest = max(rows, key=lambda row: (row.allocated_peak_bytes or 0, row.resident_peak_bytes))
        peaks = tuple(
            {"allocated_peak_bytes": row.allocated_peak_bytes, "reserved_peak_bytes": row.reserved_peak_bytes,
             "resident_peak_bytes": row.resident_peak_bytes}
            for row in rows
        )  # fmt: skip
        inputs, seconds = f"{fullest.inputs}, {processes} processes", max(row.seconds for row in rows)
        phases.add(replace(fullest, inputs=inputs, seconds=seconds, processes=peaks))
        phases.memory.append(MemoryEvidence(phase=phase, failed=False))


def _resumed(evidence: ProcessesEvidence, straight: Mapping[str, Any], path: Path) -> ProcessesEvidence:
    """The updates after the checkpoint, made twice: straight on, and in fresh processes."""
    stopped = json.loads(path.read_text(encoding="utf-8"))
    wanted = [line for line in straight["updates"] if line["update"] > SAVED_AFTER]
    differences = [abs(a["loss"] - b["loss"]) for a, b in zip(wanted, stopped["updates"], strict=False)]
    same = wanted == stopped["updates"] and all(straight[name] == stopped[name] for name in ("weights", "moments"))
    return replace(
        evidence,
        updates_after=len(stopped["updates"]),
        resumed_equal=same,
        resumed_difference=max(differences, default=math.inf),
    )
