"""Files and folders that a campaign names: they must be there, and be what they are named for."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from testigo.campaign.checks import base_faults, revision_faults
from testigo.campaign.document import Place
from testigo.campaign.fault import Fault
from testigo.campaign.known import Known
from testigo.campaign.sections import BEGIN
from testigo.campaign.wording import describe, suggestion

_HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w.-]+(@.*)?")
_SOURCES = (".jsonl", ".ndjson", ".csv", ".parquet")
_PICKLES = (".pkl", ".pickle", ".pt", ".pth", ".bin", ".ckpt", ".joblib", ".npy", ".npz")
_ARCHIVES = (".zip", ".tar", ".tgz", ".gz", ".bz2", ".xz", ".zst", ".7z", ".rar")


def unread_because(name: str) -> str:
    """Why a file is not opened at all, though other tools open such files; nothing where its form is just not known."""
    ending = Path(name).suffix.lower()
    if ending in _PICKLES:
        return ", a pickle, or a form that may hold one: it can run code when it is read"
    return ", an archive: unpack it where you can see what is in it" if ending in _ARCHIVES else ""


def file_faults(known: Known, folder: Path) -> list[Fault]:
    """All faults of the files that the campaign names, relative to its folder."""
    return [fault for check in _FILES for fault in check(known, folder)]


def _named_files(known: Known, folder: Path) -> Iterator[Fault]:
    named: list[tuple[Place, Any]] = [
        (tuple(key.split(".")), known(key))
        for key in ("data.source", "data.split.validation", "data.split.test", "task.schema")
    ]
    rules = known("rules.files")
    named += [(("rules", "files", n), name) for n, name in enumerate(rules if isinstance(rules, list | tuple) else ())]
    for n, guard in enumerate(known("guards") or ()):
        if isinstance(guard, dict):
            task = guard.get("task")
            named.append((("guards", n, "source"), guard.get("source")))
            named.append((("guards", n, "task", "schema"), task.get("schema") if isinstance(task, dict) else None))
    for place, name in named:
        if not isinstance(name, str) or (place[:2] == ("data", "split") and name.startswith(BEGIN)):
            continue
        if place[0] != "data" and place[-1] != "source":
            yield from filter(None, [_missing_file(place, name, folder)])
        elif name.startswith("hub:"):
            yield from revision_faults(name, place)
        elif not _is_folder(folder / name):
            fault = _missing_file(place, name, folder)
            if fault is not None and _HUB_NAME.fullmatch(name) and not Path(name).suffix:
                action = (
                    f"for a data set of the hub write `hub:{name.partition('@')[0]}@` and its commit (40 hex digits)"
                )
                fault = replace(fault, action=f"check the name; {action}")
            if fault is None and Path(name).suffix.lower() not in _SOURCES:
                forms = ", ".join(_SOURCES)
                found = f"`{name}`{unread_because(name)}"
                fault = Fault(place, f"a file of rows: {forms}", found, "save the rows in such a file")
            yield from filter(None, [fault])


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # a name that no file system takes
        return False


def _missing_file(place: Place, name: str, folder: Path) -> Fault | None:
    path = folder / name
    try:
        if path.is_file():
            return None
        beside = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
        found = "a folder" if path.is_dir() else f"no such file: {path}"
    except (OSError, ValueError):  # a name that no file system takes
        beside, found = [], describe(name)
    close = suggestion(path.name, beside, "check the name; it is relative to the campaign file's folder")
    return Fault(place, "an existing file", found, close)


def _base_is_there(known: Known, folder: Path) -> Iterator[Fault]:
    base = known("model.base")
    if not isinstance(base, str) or any(True for _ in base_faults(known)):
        return
    kind, _, name = base.partition(":")
    if kind == "path":
        try:
            entries = [entry.name for entry in (folder / name).iterdir()]
        except (OSError, ValueError):
            yield Fault(
                ("model", "base"),
                "an existing folder with a model",
                f"no such folder: {folder / name}",
                "check the name; it is relative to the campaign file's folder",
            )
            return
        if "config.json" not in entries and not any(entry.endswith(".gguf") for entry in entries):
            yield Fault(
                ("model", "base"),
                "a folder with `config.json` or a `.gguf` file",
                f"neither in {folder / name}",
                "name the folder that holds the model's files",
            )
    if kind == "package" and not _is_installed(name):
        yield Fault(
            ("model", "base"),
            f"the Python package `{name}` in this environment",
            "it is not installed",
            f"pip install {name.partition('.')[0].replace('_', '-')}",
        )


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name.partition(".")[0]) is not None
    except (ImportError, ValueError):
        return False


def _schema_is_a_schema(known: Known, folder: Path) -> Iterator[Fault]:
    name = known("task.schema")
    if not isinstance(name, str) or _missing_file(("task", "schema"), name, folder):
        return
    place: Place = ("task", "schema")
    try:
        schema = json.loads((folder / name).read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        at = f", line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        yield Fault(place, "a file with a JSON Schema", f"{name} is not JSON{at}", "mend the file")
        return
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        yield Fault(place, "a schema of an object", f"{name} describes something else", "let it say `type: object`")
        return
    from jsonschema import Draft202012Validator, SchemaError  # slow to import, and rarely needed

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        yield Fault(place, "a valid JSON Schema", f"{name}: {error.message}", "mend the schema")


_FILES: tuple[Callable[[Known, Path], Iterator[Fault]], ...] = (_named_files, _base_is_there, _schema_is_a_schema)
