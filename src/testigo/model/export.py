"""The adapter or the whole model, as others will load it: safetensors, tokenizer, template, what it is bound to."""

from __future__ import annotations

import json
import os
import shutil
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel, get_peft_model_state_dict
from safetensors.torch import load_file
from transformers import GenerationConfig

from testigo.disk import file_sha256
from testigo.errors import ModelError, VerificationFailed, WorkspaceError
from testigo.model import reproduction
from testigo.model.adapter import trained_parameters
from testigo.model.base import BaseFiles
from testigo.model.device import random_state_kept
from testigo.model.digest import weights_sha256
from testigo.model.head import Head
from testigo.model.load import Loaded, load_base, load_config
from testigo.model.quantised import bits_of

RECORD = "testigo.json"
COMPILED = "_orig_mod"
"""The name under which `torch.compile` keeps the module that it wraps."""


def export(
    model: Any,
    loaded: Loaded,
    folder: Path,
    *,
    prompts: Mapping[str, Any],
    stop_ids: Sequence[int] = (),
    max_new_tokens: int = 0,
    merged: bool = False,
    on_input: reproduction.OnInput = reproduction.unheard,
) -> dict[str, Any]:
    """Write an export whole or not at all, bound to its base by name, revision and digest. Returns its record.

    Parameters
    ----------
    prompts
        Control inputs by row id: their outputs are recorded, and whoever loads the export can reproduce them. Ids, or
        before a class head of images pictures.
    merged
        Whether an adapter is merged into the weights of its base first; the record keeps the digest of both.
    on_input
        Hears how many control inputs are answered.

    Raises
    ------
    ModelError
        When a trained weight is not finite, or a module inside was compiled in place of its own.
    WorkspaceError
        When the folder holds another export, or cannot be written.
    """
    model = getattr(model, COMPILED, model)  # the module that was compiled is the one whose names others know
    own = trained_parameters(model)
    _refuse_compiled_names(own)
    broken = [name for name, p in own.items() if not bool(torch.isfinite(p).all())]
    if broken:
        raise ModelError(
            expected="finite weights",
            found=f"{len(broken)} tensors with NaN or infinity: {', '.join(broken[:3])}",
            where="the trained weights",
            action="export an earlier checkpoint; this run has diverged",
        )
    digest = weights_sha256(own)
    adapter = {"merged_adapter_sha256": digest} if merged else {}
    if merged:
        model = model.merge_and_unload().requires_grad_(True)  # every weight is handed over
        own = trained_parameters(model)
        digest = weights_sha256(own)
    if folder.exists():
        kept = read_record(folder)
        if (kept["weights_sha256"], kept["base"]) == (digest, loaded.files.identity.to_json()):
            return kept
        raise WorkspaceError(
            expected="a new folder, or one with this same export",
            found=f"another export, of weights {kept['weights_sha256'][:12]}…",
            where=str(folder),
            action="name another folder; an old adapter is never overwritten",
        )
    if loaded.head:
        inputs = reproduction.record_classes(model, prompts, loaded.processor, on_input)
    else:
        inputs = reproduction.record(
            model, prompts, stop_ids=stop_ids, max_new_tokens=max_new_tokens, on_input=on_input
        )
    aside = folder.with_name(f".{folder.name}.{os.getpid()}")
    try:
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        resized = _rows_after_resizing(model, loaded)
        _save(model, loaded, aside, stop_ids)
        record = {
            "kind": "adapter" if isinstance(model, PeftModel) else "model",
            "base": loaded.files.identity.to_json(),
            "weights_sha256": digest,
            **adapter,
            "dtype": str(_read_in(model, loaded)).removeprefix("torch."),
            "trained": list(own),
            "stop_ids": list(stop_ids),
            "max_new_tokens": max_new_tokens,
            **_head_record(loaded),
            **({"quantised": bits} if (bits := bits_of(model)) else {}),
            **({"embedding_rows": resized} if resized else {}),
            "control_inputs": [c.to_json() for c in inputs],
            "sha256": {
                p.relative_to(aside).as_posix(): file_sha256(p) for p in sorted(aside.rglob("*")) if p.is_file()
            },
        }
        (aside / RECORD).write_text(json.dumps(record, indent=1), encoding="utf-8")
        aside.rename(folder)
    except OSError as error:
        raise WorkspaceError(
            expected="room and permission for the export",
            found=f"{type(error).__name__}: {error}",
            where=str(folder),
            action="free space or name another folder, then run the command again",
        ) from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return record


def _read_in(model: Any, loaded: Loaded) -> torch.dtype:
    """The numbers in which inputs become activations."""
    first = next(model.parameters()) if loaded.head else model.get_input_embeddings().weight
    dtype: torch.dtype = first.dtype
    return dtype


def _head_record(loaded: Loaded) -> dict[str, Any]:
    """What is needed to put the same head on the base again."""
    if not loaded.head:
        return {}
    reads, wanted = "image" if loaded.processor is not None else "text", "new" if loaded.new_head else "auto"
    return {"head": {"reads": reads, "wanted": wanted, "labels": list(loaded.labels), "modules": list(loaded.head)}}


def _refuse_compiled_names(names: Iterable[str]) -> None:
    """A compiled module inside gives its weights names that the base does not have: nothing would load them."""
    compiled = [name for name in names if COMPILED in name.split(".")]
    if compiled:
        raise ModelError(
            expected="weights by the names that the base gives them",
            found=f"{len(compiled)} names of compiled modules: {', '.join(compiled[:3])}",
            where="the trained weights",
            action="compile the whole model, or put the module's own (`_orig_mod`) back before the export",
        )


def _rows_after_resizing(model: Any, loaded: Loaded) -> int | None:
    """How many tokens an adapter's embeddings have where they are not the base's own; None where they are."""
    if loaded.tokenizer is None or not isinstance(model, PeftModel):
        return None
    n_rows = int(model.get_input_embeddings().weight.shape[0])
    return None if n_rows == load_config(loaded.files).get_text_config().vocab_size else n_rows


def _save(model: Any, loaded: Loaded, folder: Path, stop_ids: Sequence[int]) -> None:
    own: dict[str, Any] = {}
    if isinstance(model, PeftModel):
        # Embeddings that were resized are nobody else's. Left to decide, peft asks the hub about the base by its name.
        own = {"save_embedding_layers": _rows_after_resizing(model, loaded) is not None}
        settings = model.peft_config[model.active_adapter]
        # The folder that we loaded from means nothing to others; the base's own name and revision do.
        settings.base_model_name_or_path = loaded.files.identity.name
        settings.revision = loaded.files.identity.revision or None
    else:
        for name in loaded.files.code:  # a whole model needs it wherever it is loaded; an adapter's base brings it
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(loaded.files.folder / name, folder / name)
    model.save_pretrained(folder, **own)
    (folder / "README.md").unlink(missing_ok=True)  # peft's empty card; the dossier writes a full one
    if loaded.head:
        # With an adapter too: the base's own configuration does not know the classes.
        model.config.architectures = [type(loaded.model).__name__]
        model.config.save_pretrained(folder)
    if loaded.processor is not None:
        loaded.processor.save_pretrained(folder)
        return
    loaded.tokenizer.save_pretrained(folder)
    if loaded.head:
        return
    GenerationConfig(
        do_sample=False,
        bos_token_id=loaded.tokenizer.bos_token_id,
        eos_token_id=list(stop_ids),
        pad_token_id=loaded.tokenizer.pad_token_id,
    ).save_pretrained(folder)


def read_record(folder: Path) -> dict[str, Any]:
    """An export's record, after its files were found to be what it says.

    Raises
    ------
    VerificationFailed
        When the record or a file is missing or changed.
    """
    try:
        record: dict[str, Any] = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        wrong = [name for name, digest in record["sha256"].items() if file_sha256(folder / name) != digest]
    except (OSError, ValueError, KeyError) as error:
        raise VerificationFailed(
            expected="an export of Testigo with all its files",
            found=f"{type(error).__name__}: {error}",
            where=str(folder),
            action="name the folder that testigo export made",
        ) from error
    if wrong:
        raise VerificationFailed(
            expected="files as their record says",
            found=f"changed: {', '.join(wrong)}",
            where=str(folder),
            action="export again from the run, or get an undamaged copy",
        )
    return record


def load_export(folder: Path, files: BaseFiles, *, dtype: torch.dtype = torch.float32) -> Any:
    """An export on its base, ready to use; refused on any other base.

    Raises
    ------
    ModelError
        When the base's weights, or the code that it brings, are not those that the export is bound to, or when a tensor
        did not arrive.
    """
    record = read_record(folder)
    bound = record["base"]
    whole = record["kind"] == "model"
    if whole:
        from testigo.model.base import locate

        files = locate(f"path:{folder.resolve()}", trusted=files.is_trusted)
    _refuse_other_code(files, bound.get("code_sha256", ""), folder)
    if not whole and files.identity.weights_sha256 != bound["weights_sha256"]:
        raise ModelError(
            expected=f"the base {bound['name']} {bound['revision']} with weights {bound['weights_sha256'][:12]}…",
            found=f"{files.identity.name} {files.identity.revision} with weights {files.identity.weights_sha256[:12]}…",
            where=str(folder),
            action="load the adapter on the base that it was trained on",
        )
    if whole:
        return load_base(files, dtype=dtype, head=_head_of(record)).model
    loaded = load_base(files, dtype=dtype, head=_head_of(record), bits=record.get("quantised"))
    resized = record.get("embedding_rows")
    if resized:
        with random_state_kept():  # the rows that are new get the adapter's values below
            loaded.model.resize_token_embeddings(resized, mean_resizing=False)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Found missing adapter keys")  # they are an error of ours below
        model = PeftModel.from_pretrained(loaded.model, folder, is_trainable=False)
    model.eval()
    arrived = get_peft_model_state_dict(model, save_embedding_layers=bool(resized))
    saved = load_file(folder / "adapter_model.safetensors")
    lost = sorted(saved.keys() ^ arrived.keys()) + [
        name
        for name in saved.keys() & arrived.keys()
        if not torch.equal(saved[name], arrived[name].to(saved[name].dtype))
    ]
    if lost:
        raise ModelError(
            expected="every tensor of the adapter in the model",
            found=f"{len(lost)} did not arrive: {', '.join(lost[:5])}",
            where=str(folder / "adapter_model.safetensors"),
            action="check that names in the file are those that peft writes, then export again",
        )
    return model


def _refuse_other_code(files: BaseFiles, bound: str, folder: Path) -> None:
    """Code runs where it is trusted, and is the code that the export was made with."""
    if files.identity.code_sha256 != bound:
        names = {"": "none that is trusted"}
        raise ModelError(
            expected=names.get(bound, f"the base's own code with digest {bound[:12]}…"),
            found=names.get(files.identity.code_sha256, f"code with digest {files.identity.code_sha256[:12]}…"),
            where=str(folder),
            action="load it with the code that it was trained with, trusted as it was then",
        )


def _head_of(record: Mapping[str, Any]) -> Head | None:
    """The class head that a record tells of."""
    kept = record.get("head")
    if kept is None:
        return None
    return Head(tuple(kept["labels"]), kept["reads"], "auto" if record["kind"] == "model" else kept["wanted"])


def merged_error(model: Any, prompts: Sequence[Sequence[int] | Mapping[str, torch.Tensor]]) -> float | None:
    """How far the merged model's logits lie from the unmerged one's, relative to their largest. None for whole models.

    The model is left unmerged, up to rounding: use it last.

    Parameters
    ----------
    prompts
        Ids, or what a class head reads, by name.
    """
    if not isinstance(model, PeftModel) or bits_of(model):
        return None  # an adapter is merged into the base in full, never into weights of few bits
    device = next(model.parameters()).device

    def logits(prompt: Sequence[int] | Mapping[str, torch.Tensor]) -> torch.Tensor:
        if isinstance(prompt, Mapping):
            seen: torch.Tensor = model(**{name: value.to(device) for name, value in prompt.items()}).logits
        else:
            ids = torch.tensor([list(prompt)], device=device)
            seen = model(input_ids=ids, use_cache=False, logits_to_keep=1).logits
        return seen.float()

    with torch.inference_mode():
        before = [logits(prompt) for prompt in prompts]
    with torch.no_grad():
        model.merge_adapter()
        after = [logits(prompt) for prompt in prompts]
        model.unmerge_adapter()
    return max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(after, before, strict=True))
