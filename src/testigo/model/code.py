"""The Python files that a base brings: refused or left alone, unless the campaign declares that they may run."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from testigo.errors import ModelError

PYTHON = "*.py"
_NAMED_IN = ("config.json", "tokenizer_config.json", "preprocessor_config.json", "processor_config.json")
_CACHED = "transformers_modules"
"""The package below which transformers imports such files."""


def code_of(folder: Path) -> tuple[str, ...]:
    """The Python files of a base that is trusted, by their names in its folder.

    Raises
    ------
    ModelError
        When it names none of its own, or one that lies elsewhere: no digest would cover that one.
    """
    named = [reference for name in _NAMED_IN for reference in _references(folder / name)]
    elsewhere = sorted({reference for reference in named if "--" in reference})
    if elsewhere:
        raise ModelError(
            expected="code in the base's own folder, where its digest covers it",
            found=f"code of another model: {', '.join(elsewhere)}",
            where=str(folder),
            action="copy that code into the folder of the base, and name it in auto_map by its file alone",
        )
    files = tuple(sorted(path.relative_to(folder).as_posix() for path in folder.rglob(PYTHON)))
    if not named or not files:
        raise ModelError(
            expected="a base that brings code of its own (auto_map)",
            found="none in it" if not named else "auto_map names code, and there is no Python file",
            where=str(folder),
            action="remove model.trust_remote_code: it is for bases that cannot be loaded without"
            if not named
            else "fetch the base again, with its Python files",
        )
    return files


def names_own_code(folder: Path) -> str:
    """The kind of model (`model_type`) that a configuration with code of its own is of; empty where it has none."""
    told = _read(folder / "config.json")
    return str(told.get("model_type") or "?") if told.get("auto_map") else ""


def own_bits(folder: Path) -> str:
    """How the weights of a base are quantised already (gptq, awq, fp8, …); empty where they are in full."""
    told = _read(folder / "config.json")
    for part in (told, told.get("text_config")):  # of a model that reads images too, its text model may be alone
        own = part.get("quantization_config") if isinstance(part, dict) else None
        if own:
            return str(own.get("quant_method") or "?") if isinstance(own, dict) else "?"
    return ""


def running_code(*made: Any) -> dict[str, str]:
    """Which Python files of a base these objects were made by, and their SHA-256, whoever allowed it."""
    packages = {name.rpartition(".")[0] for name in map(_module_of, _parts(made)) if name.split(".")[0] == _CACHED}
    beside = [module for name, module in sys.modules.items() if name.rpartition(".")[0] in packages]
    files = {Path(str(module.__file__)) for module in beside}
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(files)}


def _parts(made: Iterable[Any]) -> Iterable[Any]:
    for one in made:
        yield one
        yield getattr(one, "config", None)
        yield from one.modules() if hasattr(one, "modules") else ()


def _module_of(one: Any) -> str:
    return type(one).__module__


def _references(path: Path) -> list[str]:
    told = _read(path).get("auto_map")
    values = told.values() if isinstance(told, dict) else [told]
    lists = [value if isinstance(value, list) else [value] for value in values]
    return [reference for one in lists for reference in one if isinstance(reference, str)]


def _read(path: Path) -> dict[str, Any]:
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}  # told by whoever reads it
    return told if isinstance(told, dict) else {}
