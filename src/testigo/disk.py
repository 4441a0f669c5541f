"""Files that survive a power cut: written aside, fsynced, renamed; and lines that are read as far as they are whole."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def write_atomically(path: Path, text: str) -> None:
    """Replace a file whole or not at all."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    with aside.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a JSON Lines file, [] when there is none; a last line that a kill cut in two is left out.

    Lines end with a line feed alone: a model may write U+2028 and other signs at which `str.splitlines` would cut.
    """
    if not path.exists():
        return []
    *whole, rest = path.read_bytes().split(b"\n")
    lines = [json.loads(text) for text in whole if text]
    try:
        return [*lines, json.loads(rest)] if rest else lines
    except ValueError:
        return lines
