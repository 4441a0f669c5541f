"""What sizing predicts for the very inputs that the pilot ran, beside what the counters showed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from testigo.errors import ModelError
from testigo.gates.predicted import Comparison, Measured
from testigo.model.device import device
from testigo.pilot.bench import Bench
from testigo.pilot.phases import PhaseRow
from testigo.sizing.lengths import Inputs, RowLengths
from testigo.sizing.rehearse import rehearse
from testigo.sizing.tracker import CUDA_BLOCK_BYTES, Peak

COMPARED = ("backward", "validation")
"""The worst cases, which the pilot runs beside the optimizer's state."""


def compare(bench: Bench, rows: Iterable[PhaseRow]) -> Measured:
    """Predicted and measured memory of the pilot's worst cases. A model that cannot be traced is told, not compared."""
    measured = {row.phase: row for row in rows if not row.processes}
    on_device = device().type != "cpu"
    counter = "allocated" if on_device else "resident"
    try:
        predicted = _predicted(bench, on_device=on_device)
    except ModelError as error:
        return Measured(counter, _name(), (), why_not=error.problems[0].found)
    found = []
    for phase in COMPARED:
        n_bytes = _measured(measured, phase, on_device=on_device)
        if n_bytes and phase in predicted:
            found.append(Comparison(phase, predicted[phase].n_bytes, n_bytes))
    if not on_device:
        return Measured(counter, _name(), tuple(found))
    return Measured(counter, _name(), tuple(found), _context_bytes(), _slack_share(measured))


def _predicted(bench: Bench, *, on_device: bool) -> Mapping[str, Peak]:
    settings = bench.settings
    n_classes = len(bench.loaded.labels) if bench.has_head else 0
    pixels = None
    if bench.has_head:
        inputs = bench.session.lay_out(bench.worst[:1]).inputs  # type: ignore[union-attr]
        pixels = tuple(inputs["pixel_values"].shape[1:]) if "pixel_values" in inputs else None
        lengths = RowLengths.of_classes(bench.worst, bench.worst_validation, n_classes=n_classes, pixels=pixels)
    else:
        lengths = RowLengths.of(bench.worst, bench.worst_validation)
    inputs_run = Inputs((lengths.train,), lengths.validation, lengths.n_shared, n_classes, pixels)
    alone = settings.to_json()
    alone["machine"] |= {"processes": 1, "strategy": "ddp"}  # the pilot is one process
    campaign = type(settings).from_json(alone, folder=settings.folder)
    block = CUDA_BLOCK_BYTES if on_device else 1
    configuration = bench.loaded.model.config
    return rehearse(campaign, configuration, inputs_run, parts=["later"], block_bytes=block, foreach=on_device)


def _measured(rows: Mapping[str, PhaseRow], phase: str, *, on_device: bool) -> int | None:
    """On a CPU what the process grew by since before it loaded the base."""
    row, load = rows.get(phase), rows.get("load")
    if row is None or load is None:
        return None
    return row.allocated_peak_bytes if on_device else row.resident_peak_bytes - load.resident_before_bytes


def _context_bytes() -> int | None:
    """What the device holds beyond torch's allocator; with other processes on it, theirs too."""
    if device().type != "cuda":
        return None
    free, total = torch.cuda.mem_get_info()
    return int(total - free - torch.cuda.memory_reserved())


def _slack_share(rows: Mapping[str, PhaseRow]) -> float | None:
    """Reserved and not in use, at the highest phase of those compared."""
    shares: list[Any] = [
        row.reserved_peak_bytes / row.allocated_peak_bytes - 1
        for phase in COMPARED
        if (row := rows.get(phase)) and row.reserved_peak_bytes and row.allocated_peak_bytes
    ]
    return max(shares, default=None)


def _name() -> str:
    return torch.cuda.get_device_name() if device().type == "cuda" else device().type
