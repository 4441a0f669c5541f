"""Checkpoints that are whole or not there: written aside, checksummed, fsynced, renamed, read back, then old ones go.

A checkpoint is a folder named by its update: ``weights.safetensors`` (the trained tensors),
``optimizer.safetensors`` (moments by parameter name), ``state.json``, and ``sums.json`` over the three.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from testigo.disk import file_sha256, sync_folder
from testigo.errors import ModelError, WorkspaceError
from testigo.model.prepare import fill
from testigo.model.sharding import like, whole

_FILES = ("weights.safetensors", "optimizer.safetensors", "state.json")


@dataclass(frozen=True)
class PassedOver:
    """A checkpoint that could not be used, and why."""

    name: str
    why: str


@dataclass(frozen=True)
class Checkpoint:
    """A whole checkpoint in memory."""

    update: int
    weights: dict[str, torch.Tensor]
    optimizer: dict[str, torch.Tensor]
    state: dict[str, Any]


def due_every(every: int | str, n_updates: int) -> int:
    """How often to save [updates]. `auto`: every 50 under 500 planned updates, every 200 over 2,000, else every 100."""
    if isinstance(every, int):
        return every
    return 50 if n_updates < 500 else 200 if n_updates > 2000 else 100


def save(
    folder: Path,
    update: int,
    weights: Mapping[str, torch.Tensor],
    moments: Mapping[str, torch.Tensor],
    state: dict[str, Any],
) -> Path:
    """Write a checkpoint and prove by reading it back that it is whole.

    Parameters
    ----------
    weights, moments
        As `weight_tensors` and `optimizer_tensors` give them.

    Raises
    ------
    WorkspaceError
        When the disk is full or not writable. Older checkpoints are untouched then.
    """
    final = folder / f"{update:06d}"
    aside = folder / f".{final.name}.{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.glob(".[0-9]*"):  # by a worker that was killed while it saved
            shutil.rmtree(left)
        aside.mkdir()
        save_file(dict(weights), aside / _FILES[0])
        save_file(dict(moments), aside / _FILES[1])
        (aside / _FILES[2]).write_text(json.dumps({**state, "update": update}, sort_keys=True), encoding="utf-8")
        sums = {name: file_sha256(aside / name) for name in _FILES}
        (aside / "sums.json").write_text(json.dumps(sums), encoding="utf-8")
        for path in aside.iterdir():
            with path.open("rb") as file:
                os.fsync(file.fileno())
        sync_folder(aside)
        if final.exists():
            shutil.rmtree(final)
        aside.rename(final)
        sync_folder(folder)
        fault = fault_of(final)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(aside, ignore_errors=True)
        raise WorkspaceError(
            expected="room and permission for a checkpoint",
            found=f"{type(error).__name__}: {error}",
            where=str(folder),
            action="free space (older checkpoints are untouched), then run the same command again",
        ) from error
    if fault:
        raise WorkspaceError(
            expected="the checkpoint that was just written",
            found=fault,
            where=str(final),
            action="check the disk; the former checkpoint is untouched",
        )
    return final


def fault_of(folder: Path) -> str | None:
    """Why a checkpoint folder is not whole; None when it is."""
    try:
        sums = json.loads((folder / "sums.json").read_text(encoding="utf-8"))
        for name in _FILES:
            if not (folder / name).exists():
                return f"{name} is missing"
            if file_sha256(folder / name) != sums[name]:
                return f"{name} is not what its checksum says"
    except OSError as error:
        return f"{error.strerror or error}: {Path(str(error.filename or folder)).name}"
    except (ValueError, KeyError, TypeError):
        return "sums.json is not readable"
    return None


def prune(folder: Path, *, keep: int, best_update: int | None) -> None:
    """Delete the oldest beyond `keep`; the last and the best always stay."""
    names = _names(folder)
    for name in names[: max(len(names) - keep, 0)]:
        if best_update is None or int(name) != best_update:
            shutil.rmtree(folder / name)


def newest_whole(
    folder: Path, fault_in: Callable[[Mapping[str, Any]], str | None] = lambda state: None
) -> tuple[Checkpoint | None, tuple[PassedOver, ...]]:
    """The newest checkpoint that is whole and plausible, and those that were passed over on the way to it.

    Parameters
    ----------
    fault_in
        What else is wrong with a checkpoint's state.
    """
    passed: list[PassedOver] = []
    for name in reversed(_names(folder)):
        why = fault_of(folder / name)
        if why is None:
            try:
                checkpoint = read(folder / name)
                why = _implausible(checkpoint) or fault_in(checkpoint.state)
                if why is None and checkpoint.update == int(name):
                    return checkpoint, tuple(passed)
                why = why or f"state.json says update {checkpoint.update}"
            except (ValueError, LookupError, TypeError, AttributeError, RecursionError, SafetensorError) as error:
                why = f"it was not written well: {type(error).__name__}"
        passed.append(PassedOver(name, why))
    return None, tuple(passed)


def set_aside(folder: Path, passed_over: Sequence[PassedOver]) -> None:
    """Rename what cannot be used: it counts no longer, and stays to be looked at."""
    for bad in passed_over:
        shutil.rmtree(folder / f"{bad.name}.passed-over", ignore_errors=True)
        (folder / bad.name).rename(folder / f"{bad.name}.passed-over")


def read(folder: Path) -> Checkpoint:
    """A checkpoint that is known to be whole."""
    state = json.loads((folder / "state.json").read_text(encoding="utf-8"))
    return Checkpoint(state["update"], load_file(folder / _FILES[0]), load_file(folder / _FILES[1]), state)


def restore(checkpoint: Checkpoint, parameters: Mapping[str, nn.Parameter], optimizer: torch.optim.Optimizer) -> None:
    """Put weights and moments back, by name.

    Raises
    ------
    ModelError
        When a name is missing or unexpected, on either side: nothing loads as zeros in silence.
    """
    where = f"the checkpoint of update {checkpoint.update}"
    fill(parameters, checkpoint.weights, where=where)
    unexpected = sorted({key.rpartition("/")[0] for key in checkpoint.optimizer} - parameters.keys())
    if unexpected:
        raise ModelError(
            expected="moments of the tensors that this campaign trains",
            found=f"{len(unexpected)} unexpected: {', '.join(unexpected[:5])}",
            where=where,
            action="resume with the settings that made the checkpoint",
        )
    optimizer.state.clear()
    for key, value in checkpoint.optimizer.items():
        name, _, moment = key.rpartition("/")
        parameter = parameters[name]
        # AdamW keeps its step count on the CPU
        own = like(value.clone(), parameter) if value.ndim else value
        optimizer.state[parameter][moment] = own.to(parameter.device if value.ndim else "cpu", copy=True)


def weight_tensors(parameters: Mapping[str, nn.Parameter]) -> dict[str, torch.Tensor]:
    """The trained tensors, whole, in the main memory; of sharded ones every process has to ask at once."""
    return {name: whole(p.detach()).to("cpu").contiguous() for name, p in parameters.items()}


def optimizer_tensors(
    parameters: Mapping[str, nn.Parameter], optimizer: torch.optim.Optimizer
) -> dict[str, torch.Tensor]:
    """The optimizer's state by parameter name: ``layer.weight/exp_avg``."""
    return {
        f"{name}/{key}": whole(value.detach()).to("cpu").contiguous()
        for name, parameter in parameters.items()
        for key, value in optimizer.state.get(parameter, {}).items()
        if isinstance(value, torch.Tensor)
    }


def _names(folder: Path) -> list[str]:
    found = folder.iterdir() if folder.is_dir() else ()
    return sorted((path.name for path in found if path.name.isdigit() and path.is_dir()), key=int)


def bad_moments(optimizer: Mapping[str, torch.Tensor]) -> tuple[str, ...]:
    """Names of moments that are not finite, or negative where they are squares."""
    return tuple(
        name
        for name, tensor in optimizer.items()
        if not bool(torch.isfinite(tensor).all()) or (name.endswith("/exp_avg_sq") and bool((tensor < 0).any()))
    )


def _implausible(checkpoint: Checkpoint) -> str | None:
    for name, tensor in checkpoint.weights.items():
        if not bool(torch.isfinite(tensor).all()):
            return f"the weights {name} are not finite"
    bad = bad_moments(checkpoint.optimizer)
    return f"{bad[0]} is not finite, or negative where it is a square" if bad else None
