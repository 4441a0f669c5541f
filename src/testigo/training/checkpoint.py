"""Checkpoints that are whole or not there: written aside, fsynced, read back, checksummed, renamed; then old ones go.

A checkpoint is a folder named by its update: ``weights.safetensors`` (the trained tensors),
``optimizer.safetensors`` (moments by parameter name), ``state.json``, and ``sums.json`` over the three.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from testigo.disk import file_sha256, sync_folder
from testigo.errors import DiskFull, ModelError, WorkspaceError
from testigo.model.prepare import fill
from testigo.model.sharding import like, whole
from testigo.room import is_full

FILES = ("weights.safetensors", "optimizer.safetensors", "state.json")
_REPLACED = ".replaced"
_PIECE_BYTES = 1 << 20
"""So much is compared and hashed at once: it stays in the processor's cache, and the interpreter is free meanwhile."""


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
    """Write a checkpoint and prove by reading it back from the disk that it is whole.

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
        _sweep(folder)
        aside.mkdir()
        tensors = {FILES[0]: dict(weights), FILES[1]: dict(moments)}
        for name, own in tensors.items():
            save_file(own, aside / name)
        headers = {name: _header(aside / name) for name in tensors}
        told = {**state, "update": update, "moments": sorted(moments)}
        text = json.dumps(told, sort_keys=True).encode()
        (aside / FILES[2]).write_bytes(text)
        for name in FILES:
            _to_the_disk(aside / name)
        sums = {name: _read_back(aside / name, own, headers[name]) for name, own in tensors.items()}
        sums[FILES[2]] = hashlib.sha256(text).hexdigest() if (aside / FILES[2]).read_bytes() == text else None
        (aside / "sums.json").write_text(json.dumps(sums), encoding="utf-8")
        _to_the_disk(aside / "sums.json")
        sync_folder(aside)
        unlike = next((name for name, digest in sums.items() if digest is None), None)
        if unlike is None:
            _put(aside, final)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(aside, ignore_errors=True)
        raise (DiskFull if is_full(error) else WorkspaceError)(
            expected="room and permission for a checkpoint",
            found=f"{type(error).__name__}: {error}",
            where=str(folder),
            action="free space (older checkpoints are untouched), then run the same command again",
        ) from error
    if unlike is not None:
        shutil.rmtree(aside, ignore_errors=True)
        raise WorkspaceError(
            expected="the checkpoint that was just written",
            found=f"{unlike} is not what was written",
            where=str(final),
            action="check the disk; the former checkpoint is untouched",
        )
    return final


def _to_the_disk(path: Path) -> None:
    """Written through, and out of the system's memory: what is read next is what the disk has kept."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _header(path: Path) -> bytes:
    """What a file of tensors begins with: the length of the names, shapes and places, and these.

    Source: https://github.com/huggingface/safetensors#format
    """
    with path.open("rb") as file:
        length = file.read(8)
        return length + file.read(int.from_bytes(length, "little"))


def _read_back(path: Path, own: Mapping[str, torch.Tensor], header: bytes) -> str | None:
    """The SHA-256 of a file as the disk has it; None where it holds otherwise than the memory does.

    Each byte is looked at once: compared with what was to be kept, and hashed. A checksum alone would only be held
    against the file.
    """
    digest, buffer = hashlib.sha256(header), memoryview(bytearray(_PIECE_BYTES))
    places = {name: told["data_offsets"] for name, told in json.loads(header[8:]).items() if name != "__metadata__"}
    with path.open("rb") as file:
        if file.read(len(header)) != header or places.keys() != own.keys():
            return None
        for name in sorted(places, key=places.__getitem__):
            bits = own[name].reshape(-1).view(torch.uint8).numpy()
            for at in range(0, bits.size, _PIECE_BYTES):
                wanted = bits[at : at + _PIECE_BYTES]
                piece = buffer[: wanted.size]
                if file.readinto(piece) != wanted.size or not np.array_equal(np.frombuffer(piece, np.uint8), wanted):
                    return None
                digest.update(piece)
        return None if file.read(1) else digest.hexdigest()


def _put(aside: Path, final: Path) -> None:
    """Give a checkpoint its name. One of the same update goes only when the new one has its place."""
    old = final.with_name(f"{final.name}{_REPLACED}")
    if final.exists():
        final.rename(old)
    aside.rename(final)
    sync_folder(final.parent)
    shutil.rmtree(old, ignore_errors=True)


def _sweep(folder: Path) -> None:
    """Remove what a worker left that was killed while it saved; a checkpoint whose place is still empty comes back."""
    for old in folder.glob(f"*{_REPLACED}"):
        place = old.with_name(old.name.removesuffix(_REPLACED))
        shutil.rmtree(old) if place.exists() else old.rename(place)
    for left in folder.glob(".[0-9]*"):
        shutil.rmtree(left)


def fault_of(folder: Path) -> str | None:
    """Why a checkpoint folder is not whole; None when it is."""
    try:
        sums = json.loads((folder / "sums.json").read_text(encoding="utf-8"))
        for name in FILES:
            if not (folder / name).exists():
                return f"{name} is missing"
            if file_sha256(folder / name) != sums[name]:
                return f"{name} is not what its checksum says"
    except OSError as error:
        return f"{error.strerror or error}: {Path(str(error.filename or folder)).name}"
    except (ValueError, LookupError, TypeError, RecursionError):
        return "sums.json is not readable"
    return None


def prune(folder: Path, *, keep: int, best_update: int | None) -> None:
    """Delete the oldest beyond `keep`; the last and the best always stay."""
    names = names_in(folder)
    for name in names[: max(len(names) - keep, 0)]:
        if best_update is None or int(name) != best_update:
            shutil.rmtree(folder / name)


def read(folder: Path) -> Checkpoint:
    """A checkpoint that is known to be whole."""
    state = json.loads((folder / "state.json").read_text(encoding="utf-8"))
    return Checkpoint(state["update"], load_file(folder / FILES[0]), load_file(folder / FILES[1]), state)


def restore(checkpoint: Checkpoint, parameters: Mapping[str, nn.Parameter], optimizer: torch.optim.Optimizer) -> None:
    """Put weights and moments back, by name.

    Raises
    ------
    ModelError
        When a name is missing or unexpected on either side, or a shape differs: nothing loads as zeros in silence.
    """
    where = f"the checkpoint of update {checkpoint.update}"
    fill(parameters, checkpoint.weights, where=where)
    owners = {key: key.rpartition("/")[0] for key in checkpoint.optimizer}
    unexpected = sorted(set(owners.values()) - parameters.keys())
    shapes = [
        key
        for key, value in checkpoint.optimizer.items()
        if owners[key] in parameters and value.ndim and value.shape != parameters[owners[key]].shape
    ]
    if unexpected or shapes:
        faults = {"unexpected": unexpected, "of another shape": sorted(shapes)}
        raise ModelError(
            expected="moments of the tensors that this campaign trains",
            found="; ".join(f"{len(names)} {kind}: {', '.join(names[:5])}" for kind, names in faults.items() if names),
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


def weight_tensors(parameters: Mapping[str, nn.Parameter], *, copied: bool = False) -> dict[str, torch.Tensor]:
    """The trained tensors, whole, in the main memory; of sharded ones every process has to ask at once.

    Parameters
    ----------
    copied
        Whether they stay as they are now while the training goes on; else those that lie there anyhow are the same.
    """
    return {name: whole(p.detach()).to("cpu", copy=copied).contiguous() for name, p in parameters.items()}


def optimizer_tensors(
    parameters: Mapping[str, nn.Parameter], optimizer: torch.optim.Optimizer, *, copied: bool = False
) -> dict[str, torch.Tensor]:
    """The optimizer's state by parameter name: ``layer.weight/exp_avg``; `copied` as in `weight_tensors`."""
    return {
        f"{name}/{key}": whole(value.detach()).to("cpu", copy=copied).contiguous()
        for name, parameter in parameters.items()
        for key, value in optimizer.state.get(parameter, {}).items()
        if isinstance(value, torch.Tensor)
    }


def names_in(folder: Path) -> list[str]:
    """The folders of whole checkpoints, by their names alone, in the order of their updates."""
    found = folder.iterdir() if folder.is_dir() else ()
    return sorted((path.name for path in found if path.name.isdigit() and path.is_dir()), key=int)


def settle(folder: Path) -> None:
    """Put back what a kill in the moment of a replacement left without its name."""
    if folder.is_dir():
        _sweep(folder)
