"""Which kind of log lies at a path."""

from __future__ import annotations

import json
import re
from pathlib import Path

from testigo.errors import DataError
from testigo.watch.logs.event_files import event_folders, read_event_files
from testigo.watch.logs.log import Log
from testigo.watch.logs.tables import read_csv, read_json, read_json_lines

_STATE = "trainer_state.json"
_FORMS = (
    "a trainer_state.json, a checkpoint folder or output folder of a Trainer, a TensorBoard folder, a run folder of "
    "Testigo, or a file of steps (.jsonl, .json, .csv, .tsv)"
)


def read_log(path: Path) -> Log:
    """The log of a run, whoever made it.

    Raises
    ------
    DataError
        When nothing is there, or nothing that can be read as one; with what was expected and what to do.
    MissingExtra
        When event files are to be read and tensorboard is not installed.
    """
    if not path.exists():
        raise DataError(expected=_FORMS, found="nothing there", where=str(path), action="name another path")
    return _of_folder(path) if path.is_dir() else _of_file(path)


def _of_file(path: Path) -> Log:
    if ".tfevents." in path.name:
        return read_event_files(path.parent)
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(
            expected="text in UTF-8", found=f"byte {error.start} is none", where=str(path), action="export it as UTF-8"
        ) from error
    except OSError as error:
        raise DataError(
            expected="a file that can be read", found=str(error), where=str(path), action="mend its permissions"
        ) from error
    if not text.strip():
        raise DataError(expected=_FORMS, found="an empty file", where=str(path), action="name another file")
    if path.suffix.lower() in (".jsonl", ".ndjson"):
        return read_json_lines(path, text)
    if path.suffix.lower() == ".json" or text.lstrip()[:1] in "[{":
        return read_json(path, text)
    return read_csv(path, text)


def _of_folder(folder: Path) -> Log:
    """The most telling file: a Trainer's newest state, a run of Testigo, event files, or the only table."""
    state = _newest_state(folder)
    if state is not None:
        return _of_file(state)
    if (folder / "steps.jsonl").is_file():
        return _of_file(folder / "steps.jsonl")
    events = event_folders(folder)
    if len(events) == 1:
        return read_event_files(events[0])
    if events:
        names = ", ".join(str(one.relative_to(folder)) for one in events[:6])
        raise DataError(
            expected="the event files of one run",
            found=f"{len(events)} folders with event files: {names}",
            where=str(folder),
            action=f"name one of them, such as {events[-1]}",
        )
    tables = sorted(one for one in folder.iterdir() if one.suffix.lower() in (".csv", ".jsonl", ".tsv"))
    if len(tables) == 1:
        return _of_file(tables[0])
    names = ", ".join(one.name for one in sorted(folder.iterdir())[:8]) or "nothing"
    raise DataError(
        expected=_FORMS,
        found=f"{len(tables)} tables, and neither states nor event files: {names}",
        where=str(folder),
        action="name the file itself",
    )


def _newest_state(folder: Path) -> Path | None:
    """Of the folder itself, or of its checkpoints; the one with the most steps, since names may lie."""
    found = [folder / _STATE, *(one / _STATE for one in folder.glob("checkpoint-*"))]

    def step(path: Path) -> int:
        try:
            return int(json.loads(path.read_text(encoding="utf-8"))["global_step"])
        except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return int(match.group()) if (match := re.search(r"\d+$", path.parent.name)) else 0

    existing = [path for path in found if path.is_file()]
    return max(existing, key=step, default=None)
