"""Which checkpoint a run goes on from: the newest that is whole, plausible and its own."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from testigo.training import checkpoint
from testigo.training.checkpoint import Checkpoint
from testigo.training.progress import Progress


@dataclass(frozen=True)
class PassedOver:
    """A checkpoint that could not be used, and why."""

    name: str
    why: str


_UNREADABLE = (
    OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, SafetensorError,
)  # fmt: skip
"""What reading a file raises that nobody wrote as a checkpoint."""


def newest_sound(
    folder: Path, run: str | None = None, scaler: Mapping[str, Any] | None = None
) -> tuple[Checkpoint | None, tuple[PassedOver, ...]]:
    """The newest checkpoint that can be gone on from, and those that were passed over on the way to it.

    Parameters
    ----------
    run
        Whose checkpoints they have to be; None takes those of any run.
    scaler
        A state with the fields that the scaler of the loss has to have; None takes any.
    """
    passed: list[PassedOver] = []
    for name in reversed(checkpoint.names_in(folder)):
        found = _sound(folder / name, run, scaler)
        if isinstance(found, Checkpoint):
            return found, tuple(passed)
        passed.append(PassedOver(name, found))
    return None, tuple(passed)


def set_aside(folder: Path, passed_over: Sequence[PassedOver]) -> None:
    """Rename what cannot be used: it counts no longer, and stays to be looked at."""
    for bad in passed_over:
        shutil.rmtree(folder / f"{bad.name}.passed-over", ignore_errors=True)
        (folder / bad.name).rename(folder / f"{bad.name}.passed-over")


def bad_moments(optimizer: Mapping[str, torch.Tensor]) -> tuple[str, ...]:
    """Names of moments that are not finite, or negative where they are squares or counts."""
    return tuple(
        name
        for name, tensor in optimizer.items()
        if not bool(torch.isfinite(tensor).all())
        or (name.endswith(("/exp_avg_sq", "/step")) and bool((tensor < 0).any()))
    )


def _sound(folder: Path, run: str | None, scaler: Mapping[str, Any] | None) -> Checkpoint | str:
    """A checkpoint, or why it cannot be gone on from."""
    if why := checkpoint.fault_of(folder):
        return why
    try:
        read = checkpoint.read(folder)
        return next(_doubts(read, int(folder.name), run, scaler), None) or read
    except _UNREADABLE as error:
        return f"it is no checkpoint: {type(error).__name__}: {error}"


def _doubts(read: Checkpoint, number: int, run: str | None, scaler: Mapping[str, Any] | None) -> Iterator[str]:
    if read.update != number:
        yield f"its state is of update {read.update}, its name of {number}"
    if run is not None and read.state.get("run", run) != run:
        yield f"it belongs to the run {read.state['run']}"
    if Progress.from_json(read.state["progress"]).update != number:
        yield f"its progress is of update {read.state['progress']['update']}"
    yield from _of_the_scaler(read.state["scaler"], scaler)
    for name, tensor in read.weights.items():
        if not bool(torch.isfinite(tensor).all()):
            yield f"the weights {name} are not finite"
    if told := set(read.state.get("moments", read.optimizer)) ^ read.optimizer.keys():
        yield f"optimizer.safetensors lacks or adds {len(told)} of the moments that its state names: {min(told)}"
    for name in bad_moments(read.optimizer):
        yield f"{name} is not finite, or negative where it is a square or a count"


def _of_the_scaler(state: Mapping[str, Any], own: Mapping[str, Any] | None) -> Iterator[str]:
    """An empty state is that of a scaler that is switched off."""
    if own is not None and state.keys() != own.keys():
        yield f"the scaler of the loss has {len(state)} fields, {len(own)} are known"
    if state and not (math.isfinite(state["scale"]) and state["scale"] > 0):
        yield f"the scale of the loss is {state['scale']}"
