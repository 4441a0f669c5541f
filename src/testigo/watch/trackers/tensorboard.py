"""TensorBoard: the scalars of each update and validation, in the run's folder `tensorboard/`."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from testigo.errors import MissingExtra

SCALARS = {
    "loss": "train/loss",
    "learning_rate": "train/learning_rate",
    "gradient_norm": "train/gradient_norm",
    "supervised_tokens": "train/supervised_tokens",
    "seconds": "train/seconds",
    "resident_bytes": "memory/resident_bytes",
    "allocated_bytes": "memory/allocated_bytes",
    "reserved_bytes": "memory/reserved_bytes",
    "validation_loss": "validation/loss",
}
"""Key of a journal line -> tag. Both losses are in nats per supervised token."""


def open_tracker(run: Path, before: Iterable[Mapping[str, Any]]) -> Callable[[Mapping[str, Any]], None]:
    """Begin the run's event file anew with the lines so far: a resumed run is one run, with each update once.

    Raises
    ------
    MissingExtra
        When tensorboard is not installed.
    """
    try:
        from tensorboard.summary import Writer
    except ImportError as error:
        raise MissingExtra("tensorboard", "tensorboard", "writes TensorBoard event files") from error
    folder = run / "tensorboard"
    shutil.rmtree(folder, ignore_errors=True)
    writer = Writer(str(folder))

    def tell(line: Mapping[str, Any]) -> None:
        validation = "validation_loss" in line
        for key, tag in SCALARS.items():
            if line.get(key) is not None and not (validation and key == "seconds"):
                writer.add_scalar(tag, float(line[key]), line["update"])
        writer.flush()

    for line in before:
        tell(line)
    return tell
