"""Files that survive a power cut: written aside, fsynced, renamed; and lines that are read as far as they are whole."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from testigo.errors import DiskFull, WorkspaceError
from testigo.room import is_full, when_there_is_room


@contextlib.contextmanager
def working_in(folder: Path) -> Iterator[None]:
    """Say in words what the operating system refuses: a full disk, a read-only folder.

    Raises
    ------
    WorkspaceError
        For any `OSError`; a `DiskFull` where there was no room.
    """
    try:
        yield
    except OSError as error:
        raise (DiskFull if is_full(error) else WorkspaceError)(
            expected="files that can be read and written, and room for them",
            found=f"{type(error).__name__}: {error}",
            where=str(folder),
            action="free space or mend the permissions, then run the same command again; it goes on where it stood",
        ) from error


def write_atomically(path: Path, text: str) -> None:
    """Replace a file whole or not at all."""
    when_there_is_room(lambda: _replace(path, text), path.parent)


def _replace(path: Path, text: str) -> None:
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with aside.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except OSError:
        aside.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def append(path: Path, text: str) -> None:
    """Add whole lines to a file, all of them or, on a disk that is full, none: half a line would spoil the next one."""
    when_there_is_room(lambda: _add(path, text.encode()), path.parent)


def _add(path: Path, content: bytes) -> None:
    with path.open("ab", buffering=0) as file:
        before, rest = file.seek(0, os.SEEK_END), memoryview(content)
        try:
            while rest:
                rest = rest[file.write(rest) :]
        except OSError:
            file.truncate(before)
            raise


def write_json(path: Path, document: Any) -> None:
    """A document as JSON, whole or not at all; its folder is made when it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(document, indent=1, ensure_ascii=False))


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


def file_sha256(path: Path) -> str:
    """SHA-256, in hex, of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
