"""The checkpoint that a Trainer is to go on from: read, compared, and never loaded into anything."""

from __future__ import annotations

import json
import pickletools
import struct
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from testigo.attach.bench import Bench, planned_updates
from testigo.attach.keeping import random_states_kept
from testigo.errors import TestigoError
from testigo.gates.resume import ResumeEvidence
from testigo.gates.trainer_resume import CheckpointEvidence

#: Archives up to this size are read to the end to compare checksums; of larger ones only the directory [bytes].
MOST_CHECKED_BYTES = 2 * 2**30
#: An epoch of more batches than this is not drawn twice to compare its order.
MOST_BATCHES = 100_000
_STATE = "trainer_state.json"
_OTHERS = (_STATE, "optimizer.pt", "scheduler.pt", "rng_state.pth", "training_args.bin")
_WEIGHTS = ("model.safetensors", "adapter_model.safetensors", "model.safetensors.index.json", "pytorch_model.bin")
#: Settings that define what a run does. What only decides what is logged or saved is not among them.
SETTINGS = (
    "learning_rate", "lr_scheduler_type", "warmup_steps", "max_steps", "num_train_epochs", "weight_decay",
    "adam_beta1", "adam_beta2", "adam_epsilon", "max_grad_norm", "optim", "per_device_train_batch_size",
    "gradient_accumulation_steps", "seed", "data_seed", "train_sampling_strategy", "dataloader_drop_last", "bf16",
    "fp16", "label_smoothing_factor", "neftune_noise_alpha", "max_length", "packing", "assistant_only_loss",
    "completion_only_loss",
)  # fmt: skip


def folder_of(trainer: Any, resume_from_checkpoint: str | bool | None) -> Path | None:
    """The folder that `train(resume_from_checkpoint=...)` would go on from.

    Raises
    ------
    TestigoError
        When the named folder is not there.
    """
    asked = resume_from_checkpoint if resume_from_checkpoint is not None else trainer.args.resume_from_checkpoint
    if not asked:
        return None
    if asked is True:
        from transformers.trainer_utils import get_last_checkpoint

        output = Path(trainer.args.output_dir)
        asked = get_last_checkpoint(str(output)) if output.is_dir() else None
    folder = None if asked is None else Path(asked)
    if folder is None or not folder.is_dir():
        raise TestigoError(
            expected="a checkpoint to go on from",
            found="no such folder" if folder else "no checkpoint",
            where=str(folder or trainer.args.output_dir),
            action="name an existing folder in `resume_from_checkpoint`, or leave it out",
        )
    return folder


def collect(bench: Bench, folder: Path, loader: Any) -> tuple[CheckpointEvidence, ResumeEvidence]:
    """What the checkpoint holds beside what the Trainer says now."""
    lacking, damaged = _files(folder)
    state = {} if _STATE in (*lacking, *damaged) else json.loads((folder / _STATE).read_text(encoding="utf-8"))
    missing, unexpected = _names(bench, folder, damaged)
    done, planned = int(state.get("global_step", 0)), planned_updates(bench.trainer, loader)
    checkpoint = CheckpointEvidence(
        checkpoint=folder.name,
        files_lacking=lacking,
        files_damaged=damaged,
        keys_missing=missing,
        keys_unexpected=unexpected,
        changed=(*_changed_settings(bench, folder, damaged), *_changed_rows(bench, state, loader)),
        patience_used=_patience(bench.trainer, state),
        order_repeats=_order_repeats(loader),
    )
    resumed = ResumeEvidence(
        updates_before=done if state else None,
        updates_after=None if planned is None or not state else max(planned - done, 0),
        bad_moments=None if "optimizer.pt" in (*lacking, *damaged) else _bad_moments(bench, folder / "optimizer.pt"),
    )
    return checkpoint, resumed


def _files(folder: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    lacking = [name for name in _OTHERS if not (folder / name).is_file()]
    if "rng_state.pth" in lacking and any(folder.glob("rng_state_*.pth")):  # one a process
        lacking.remove("rng_state.pth")
    weighs = any((folder / name).is_file() for name in _WEIGHTS) or any(folder.glob("*/adapter_model.*"))
    lacking += [] if weighs else ["the weights"]
    damaged = [path.name for path in sorted(folder.iterdir()) if path.is_file() and not _is_whole(path)]
    return tuple(lacking), tuple(damaged)


def _is_whole(path: Path) -> bool:
    try:
        if path.suffix == ".safetensors":
            return path.stat().st_size == _safetensors_size(path)
        if path.suffix in (".pt", ".pth", ".bin"):
            with zipfile.ZipFile(path) as archive:
                return path.stat().st_size > MOST_CHECKED_BYTES or archive.testzip() is None
        if path.suffix == ".json":
            json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, struct.error, zipfile.BadZipFile):
        return False
    return True


def _safetensors_header(path: Path) -> tuple[int, dict[str, Any]]:
    """Bytes before the data, and what the header says of each tensor."""
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        return 8 + length, json.loads(file.read(length))


def _safetensors_size(path: Path) -> int:
    start, header = _safetensors_header(path)
    return start + max((one["data_offsets"][1] for name, one in header.items() if name != "__metadata__"), default=0)


def _names(
    bench: Bench, folder: Path, damaged: tuple[str, ...]
) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
    """Names that the model expects and the file lacks, and the other way round."""
    model = bench.trainer.model
    adapter = hasattr(model, "peft_config")
    path = folder / ("adapter_model.safetensors" if adapter else "model.safetensors")
    if not path.is_file() or path.name in damaged:
        return None, None
    held = set(_safetensors_header(path)[1]) - {"__metadata__"}
    if adapter:
        from peft import get_peft_model_state_dict

        expected = set(get_peft_model_state_dict(model, save_embedding_layers=False))
        held = {name for name in held if "embed" not in name or name in expected}  # peft adds resized embeddings
        return tuple(sorted(expected - held)), tuple(sorted(held - expected))
    tensors = model.state_dict()
    shared = {value.data_ptr() for name, value in tensors.items() if name in held}
    missing = [name for name, value in tensors.items() if name not in held and value.data_ptr() not in shared]
    return tuple(missing), tuple(sorted(held - set(tensors)))


def _changed_settings(bench: Bench, folder: Path, damaged: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    path = folder / "training_args.bin"
    if not path.is_file() or path.name in damaged:
        return
    then = plain_settings(path)
    for name in SETTINGS:
        now = getattr(bench.args, name, None)
        now = getattr(now, "value", now)
        if name in then and then[name] != now:
            yield name, str(then[name]), str(now)


def plain_settings(path: Path) -> dict[str, Any]:
    """Numbers and words of a pickled object's attributes, read from its instructions without carrying out any of them.

    A pickle can run whatever it likes when it is loaded; here it is only looked at. A value that is built by a call is
    read as the first word that the call is given: that is the value of an enumeration.
    """
    with zipfile.ZipFile(path) as archive:
        name = next(name for name in archive.namelist() if name.endswith("data.pkl"))
        operations = [(op.name, value) for op, value, _ in pickletools.genops(archive.read(name))]
    constants = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
    remembered: dict[int, Any] = {}
    settings: dict[str, Any] = {}
    for place, (kind, value) in enumerate(operations):
        following = operations[place + 1] if place + 1 < len(operations) else ("", None)
        if kind == "BINUNICODE" and following[0] in ("BINPUT", "LONG_BINPUT"):
            remembered[int(following[1])] = value  # type: ignore[arg-type]
    for place, (kind, value) in enumerate(operations):
        if kind != "BINUNICODE" or value not in SETTINGS or value in settings:
            continue
        for kind_after, after in operations[place + 1 : place + 6]:
            if kind_after in constants:
                settings[str(value)] = constants[kind_after]
            elif kind_after in ("BININT", "BININT1", "BININT2", "BINFLOAT", "BINUNICODE"):
                settings[str(value)] = after
            elif kind_after in ("BINGET", "LONG_BINGET") and int(after) in remembered:  # type: ignore[arg-type]
                settings[str(value)] = remembered[int(after)]  # type: ignore[arg-type]
            else:
                continue
            break
    return settings


def _changed_rows(bench: Bench, state: Mapping[str, Any], loader: Any) -> Iterator[tuple[str, str, str]]:
    """Microbatches an epoch, which the Trainer's state tells by its share of an epoch."""
    done, epoch = state.get("global_step"), state.get("epoch")
    try:
        now = len(loader)
    except TypeError:
        return
    if not done or not epoch or state.get("train_batch_size") not in (None, bench.args.train_batch_size):
        return
    accumulation = bench.args.gradient_accumulation_steps
    whole_epochs = int(epoch)
    if epoch == whole_epochs:
        then = round(done / whole_epochs)
        if then != -(-now // accumulation):
            yield "updates an epoch", str(then), str(-(-now // accumulation))
        return
    then = round((done - whole_epochs * -(-now // accumulation)) * accumulation / (epoch - whole_epochs))
    if then != now:
        yield "batches an epoch", str(then), str(now)


def _patience(trainer: Any, state: Mapping[str, Any]) -> int:
    stops_early = any(type(one).__name__ == "EarlyStoppingCallback" for one in trainer.callback_handler.callbacks)
    if not stops_early or trainer.args.restore_callback_states_from_checkpoint:
        return 0
    kept = (state.get("stateful_callbacks") or {}).get("EarlyStoppingCallback") or {}
    kept = kept[0] if isinstance(kept, list) else kept
    return int((kept.get("attributes") or {}).get("early_stopping_patience_counter") or 0)


def _order_repeats(loader: Any) -> bool | None:
    """Draw one epoch's order twice, with two global random states."""
    sampler = getattr(loader, "batch_sampler", None)
    if sampler is None or not hasattr(loader, "set_epoch"):
        return None
    try:
        if len(sampler) > MOST_BATCHES:
            return None
    except TypeError:
        return None
    orders = []
    for seed in (1, 2):
        with random_states_kept():
            torch.manual_seed(seed)
            loader.set_epoch(0)
            orders.append([list(batch) for batch in sampler])
    return orders[0] == orders[1]


def _bad_moments(bench: Bench, path: Path) -> tuple[str, ...]:
    """Tensors of the optimizer's state that are not finite, or negative where they are squares."""
    kept = torch.load(path, map_location="cpu", weights_only=True)
    own = {id(p): name for name, p in bench.trained.items()}
    names = [own.get(id(p), "?") for group in bench.trainer.optimizer.param_groups for p in group["params"]]
    bad = []
    for number, moments in kept.get("state", {}).items():
        for kind, value in moments.items():
            if not isinstance(value, torch.Tensor) or not value.is_floating_point():
                continue
            if not bool(torch.isfinite(value).all()) or ("sq" in kind and bool((value < 0).any())):
                known = isinstance(number, int) and number < len(names)
                bad.append(f"{names[number] if known else number} {kind}")
    return tuple(bad)
