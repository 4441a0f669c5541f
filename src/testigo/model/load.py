"""Weights and tokenizer into memory: safetensors or GGUF, in one declared dtype, trainable and savable."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from transformers import CONFIG_MAPPING, AutoConfig, AutoImageProcessor, AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging as transformers_logging

from testigo.disk import file_sha256
from testigo.errors import ModelError
from testigo.model.base import BaseFiles
from testigo.model.code import names_own_code, own_bits
from testigo.model.device import random_state_kept
from testigo.model.head import Head, begin_anew, head_modules, is_of_head, keep_statistics
from testigo.model.quantised import Bits, loading_options, settle

Precision = Literal["fp32", "bf16", "fp16"]
_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True)
class Loaded:
    """A base in memory.

    Attributes
    ----------
    tokenizer, processor
        What makes tensors of a text or of an image; the other is None.
    head
        The modules of its class head, which are trained whole; none where a text is written.
    new_head
        Whether that head is new: its weights say nothing yet.
    labels
        The names of the classes as the campaign orders them.
    """

    model: Any
    tokenizer: Any
    files: BaseFiles
    processor: Any = None
    head: tuple[str, ...] = ()
    new_head: bool = False
    labels: tuple[str, ...] = ()


def load_config(files: BaseFiles) -> Any:
    """The base's configuration, without weights.

    Raises
    ------
    ModelError
        When it is missing or unknown, or its weights are quantised already.
    """
    folder, options = _readable(files)
    refuse_own_code(files)
    refuse_quantised(files)
    try:
        return AutoConfig.from_pretrained(folder, trust_remote_code=files.is_trusted, **options)
    except Exception as error:
        raise ModelError(
            expected="a model configuration that transformers knows",
            found=f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}",
            where=str(files.folder),
            action="check that the folder is complete and the architecture is supported",
        ) from error


def refuse_own_code(files: BaseFiles) -> None:
    """Refuse a base that needs Python files of its own to be understood, and is not trusted: they would run unseen.

    One that brings such files beside an architecture that transformers knows is loaded without them.

    Raises
    ------
    ModelError
        When transformers does not know its architecture.
    """
    kind = names_own_code(files.folder)
    if kind and not files.is_trusted and kind not in CONFIG_MAPPING:
        raise ModelError(
            expected="a model whose architecture transformers knows",
            found="one that brings code of its own (auto_map), which would run when it is loaded",
            where=str(files.folder / "config.json"),
            action="choose a base of a known architecture; or read its Python files, and declare "
            "model.trust_remote_code: true to let them run",
        )


def refuse_quantised(files: BaseFiles) -> None:
    """Refuse a base whose files are quantised already: what they mean is known to the library alone that made them.

    Raises
    ------
    ModelError
        When its configuration says so. A GGUF file is no such base: it is dequantised.
    """
    if files.gguf is None and (method := own_bits(files.folder)):
        raise ModelError(
            expected="a base whose weights are there in full, as safetensors, or in a GGUF file",
            found=f"weights that are quantised already, by {method} (quantization_config)",
            where=str(files.folder / "config.json"),
            action="name the base from which they were made; model.quantise: 4bit holds it in few bits",
        )


def load_tokenizer(files: BaseFiles) -> Any:
    """The base's own tokenizer with its chat template.

    Raises
    ------
    ModelError
        When there is none.
    """
    folder, options = _readable(files)
    try:
        return AutoTokenizer.from_pretrained(folder, trust_remote_code=files.is_trusted, **options)
    except Exception as error:
        raise ModelError(
            expected="a tokenizer beside the weights",
            found=f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}",
            where=str(files.folder),
            action="put the model's tokenizer files into the same folder",
        ) from error


def load_processor(folder: Path, *, trusted: bool = False) -> Any:
    """A base's own image processor, on Pillow: the same numbers on every machine.

    Raises
    ------
    ModelError
        When there is none.
    """
    try:
        return AutoImageProcessor.from_pretrained(folder, trust_remote_code=trusted, backend="pil")
    except Exception as error:
        raise ModelError(
            expected="an image processor (preprocessor_config.json) beside the weights",
            found=f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}",
            where=str(folder),
            action="put the model's preprocessor_config.json into the same folder",
        ) from error


def load_base(
    files: BaseFiles, *, dtype: torch.dtype = torch.float32, head: Head | None = None, bits: Bits | None = None
) -> Loaded:
    """The whole base in one dtype, with the class head that is asked for.

    Trained weights stay in fp32 (mixed precision is autocast's work); a frozen base may be held in the campaign's
    precision, or in four or eight bits: then it lies on the device already.

    Raises
    ------
    ModelError
        When transformers cannot load it, when weights are missing, unexpected or of another shape, or when its own
        head is for other classes.
    """
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    refuse_own_code(files)
    refuse_quantised(files)
    if head is not None:
        return _load_with_head(files, dtype, head)
    tokenizer = load_tokenizer(files)
    model, report = _from_pretrained(
        AutoModelForCausalLM, files, dtype, "a causal language model", **loading_options(bits, dtype)
    )
    settle(model)
    _refuse_missing(report, files)
    model.eval()
    return Loaded(model, tokenizer, files)


def pad_id_of(tokenizer: Any) -> int:
    """Any id will do, since padding is known by its place; the tokenizer's own where it has one."""
    return int(tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id or 0)


def _load_with_head(files: BaseFiles, dtype: torch.dtype, head: Head) -> Loaded:
    tokenizer = load_tokenizer(files) if head.reads == "text" else None
    processor = load_processor(files.folder, trusted=files.is_trusted) if head.reads == "image" else None
    configuration = load_config(files)
    new = head.configure(configuration)
    if tokenizer is not None:
        # A decoder's head reads the last token that is no padding, and knows padding by this id alone.
        configuration.get_text_config().pad_token_id = pad_id_of(tokenizer)
    what = f"a model with a head for {head.reads} classes"
    with random_state_kept():  # transformers draws values of its own for what is missing
        model, report = _from_pretrained(head.auto_class, files, dtype, what, configuration)
    modules = head_modules(model)
    report = {kind: [str(key[0] if isinstance(key, tuple) else key) for key in keys] for kind, keys in report.items()}
    missing = [name for name in report.get("missing_keys", ()) if is_of_head(name, modules)]
    other = {kind: [n for n in report.get(kind, ()) if not (new and is_of_head(n, modules))] for kind in _FATAL}
    _refuse_missing(other, files)
    if new:
        own = [name for name, _ in model.named_parameters() if is_of_head(name, modules) and "pooler" not in name]
        begin_anew(model, [*own, *missing], seed=head.seed)
        modules += tuple(sorted({name.rpartition(".pooler.")[0] + ".pooler" for name in missing if ".pooler." in name}))
    keep_statistics(model)
    model.eval()
    return Loaded(model, tokenizer, files, processor, modules, new, head.labels)


_FATAL = ("missing_keys", "mismatched_keys")


def _from_pretrained(
    auto_class: Any, files: BaseFiles, dtype: torch.dtype, what: str, configuration: Any = None, **options: Any
) -> tuple[Any, dict[str, Any]]:
    own = {} if configuration is None else {"config": configuration, "ignore_mismatched_sizes": True}
    try:
        model, report = auto_class.from_pretrained(
            _trainable_folder(files),
            dtype=dtype,
            trust_remote_code=files.is_trusted,
            use_safetensors=True,
            output_loading_info=True,
            **own,
            **options,
        )
    except Exception as error:
        raise ModelError(
            expected=f"{what} that transformers loads from safetensors",
            found=f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}",
            where=str(files.folder),
            action="check that the folder is complete and the architecture is supported",
        ) from error
    return model, report


def _refuse_missing(report: Mapping[str, Any], files: BaseFiles) -> None:
    faults = {kind: sorted(map(str, report.get(kind) or ())) for kind in _FATAL}
    if any(faults.values()):
        raise ModelError(
            expected="every weight of the architecture in the files",
            found="; ".join(
                f"{kind.replace('_', ' ')}: {', '.join(names[:5])}" for kind, names in faults.items() if names
            ),
            where=str(files.folder),
            action="use a complete copy of the base",
        )


def dtype_of(precision: Precision, *, full: bool) -> torch.dtype:
    """In which dtype the base is held: trained weights and fp16 runs in fp32, a frozen bf16 base in bf16."""
    return torch.float32 if full or precision != "bf16" else _DTYPES[precision]


def _readable(files: BaseFiles) -> tuple[Path, dict[str, str]]:
    """Where configuration and tokenizer are read from, without dequantising a GGUF base for them."""
    if files.gguf is None:
        return files.folder, {}
    kept = _kept(files)
    return (kept, {}) if (kept / "sums.json").exists() else (files.folder, {"gguf_file": files.gguf})


def _kept(files: BaseFiles) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "testigo" / "bases"
    return cache / files.identity.weights_sha256


def _trainable_folder(files: BaseFiles) -> Path:
    """The folder to load from. A GGUF base is dequantised once and kept as safetensors, known by its content."""
    if files.gguf is None:
        return files.folder
    kept = _kept(files)
    if not _is_whole(kept):
        _dequantise(files, kept)
    return kept


def _is_whole(kept: Path) -> bool:
    try:
        sums = json.loads((kept / "sums.json").read_text())
        return all(file_sha256(kept / name) == digest for name, digest in sums.items())
    except (OSError, ValueError):
        return False


def _dequantise(files: BaseFiles, kept: Path) -> None:
    try:
        import gguf  # noqa: F401
    except ImportError as error:
        from testigo.errors import MissingExtra

        raise MissingExtra("gguf", "gguf", "reads GGUF bases") from error
    transformers_logging.disable_progress_bar()
    assert files.gguf is not None
    model = AutoModelForCausalLM.from_pretrained(
        files.folder, gguf_file=files.gguf, dtype=torch.float32, trust_remote_code=False
    )
    # The model is no longer quantised; with these left in place transformers refuses to save it.
    model.hf_quantizer = None
    del model.config.quantization_config
    model.config._name_or_path = files.identity.name
    tokenizer = AutoTokenizer.from_pretrained(files.folder, gguf_file=files.gguf, trust_remote_code=False)
    kept.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(dir=kept.parent, prefix=".making-"))
    try:
        model.save_pretrained(aside)
        tokenizer.save_pretrained(aside)
        sums = {path.name: file_sha256(path) for path in sorted(aside.iterdir())}
        (aside / "sums.json").write_text(json.dumps(sums, indent=1))
        if kept.exists():
            shutil.rmtree(kept)
        aside.rename(kept)
    except OSError as error:
        if not _is_whole(kept):  # another process may have been faster
            raise ModelError(
                expected="room for the dequantised base",
                found=f"{type(error).__name__}: {error}",
                where=str(kept.parent),
                action="free space there, or set XDG_CACHE_HOME to a folder with room",
            ) from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
