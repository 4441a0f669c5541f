"""A folder of TensorBoard event files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from testigo.errors import DataError, MissingExtra
from testigo.watch.logs.log import NAMES, Log, log_of, plain

PATTERN = "*.tfevents.*"


def event_folders(folder: Path) -> list[Path]:
    """Folders below this one, or itself, that hold event files."""
    return sorted({path.parent for path in folder.rglob(PATTERN)})


def read_event_files(folder: Path) -> Log:
    """All scalars of one run, by step.

    Raises
    ------
    MissingExtra
        When tensorboard is not installed.
    DataError
        When there is no scalar that is a loss.
    """
    try:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    except ImportError as missing:
        raise MissingExtra("tensorboard", "tensorboard", "reads event files") from missing
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0})
    events.Reload()
    tags = events.Tags()
    lines: dict[int, dict[str, Any]] = {}
    own = {"update", "wall_time"}
    for tag in tags["scalars"]:
        for event in events.Scalars(tag):
            line = lines.setdefault(event.step, {"update": event.step})
            line[tag] = event.value
            if plain(tag) in NAMES["loss"]:
                line["wall_time"] = event.wall_time
    for tag in tags["tensors"]:
        for event in events.Tensors(tag):
            if len(event.tensor_proto.float_val) == 1:
                lines.setdefault(event.step, {"update": event.step})[tag] = event.tensor_proto.float_val[0]
    if not any(set(line) - own for line in lines.values()):
        raise DataError(
            expected="event files with scalars",
            found=f"{len(list(folder.glob(PATTERN)))} event files without any",
            where=str(folder),
            action="name the folder of the run that logged its loss",
        )
    return log_of("TensorBoard event files", folder, [lines[step] for step in sorted(lines)])
