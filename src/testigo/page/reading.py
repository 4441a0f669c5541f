"""Files that grow while they are read."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

_MEMORY_BYTES = 64


class Growing:
    """The whole lines of a file, each given once, as they are added.

    A resume replaces the file by a shorter one; then reading begins anew, and `new` says so.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0
        self._before = b""  # the last bytes that were read: a replaced file has others there

    def new(self) -> tuple[bool, list[tuple[int, bytes]]]:
        """Whether the file began anew, and each whole line since the last look with the byte at which it starts."""
        try:
            with self.path.open("rb") as file:
                anew = self._is_another(file.fileno())
                if anew:
                    self._offset, self._before = 0, b""
                file.seek(self._offset)
                content = file.read()
        except OSError:
            anew, self._offset, self._before = self._offset > 0, 0, b""
            return anew, []
        whole = content[: content.rfind(b"\n") + 1]
        lines, at = [], self._offset
        for line in whole.split(b"\n")[:-1]:
            lines.append((at, line))
            at += len(line) + 1
        self._offset = at
        self._before = (self._before + whole)[-_MEMORY_BYTES:]
        return anew, lines

    def _is_another(self, file: int) -> bool:
        if not self._offset:
            return False
        return os.pread(file, len(self._before), self._offset - len(self._before)) != self._before


def json_object(line: bytes) -> dict[str, Any] | None:
    """The JSON object of a line; None for anything else, such as a line that a crash tore."""
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def line_at(path: Path, place: int) -> dict[str, Any] | None:
    """The JSON object of the line that starts at a byte of a file."""
    try:
        with path.open("rb") as file:
            file.seek(place)
            return json_object(file.readline())
    except OSError:
        return None


def tail_of(path: Path, n_bytes: int) -> str:
    """The last whole lines of a text file, at most so many bytes of them; empty when there is none."""
    try:
        with path.open("rb") as file:
            start = max(0, file.seek(0, os.SEEK_END) - n_bytes)
            file.seek(start)
            content = file.read()
    except OSError:
        return ""
    if start:
        content = content.partition(b"\n")[2] or content
    return content.decode("utf-8", "replace")


def size_of(path: Path) -> int:
    """Bytes of a file; 0 when there is none."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def stamp(path: Path) -> str:
    """What tells one version of a file from the next without reading it."""
    return stamp_of(str(path))


def stamp_of(path: str) -> str:
    """As `stamp`, for very many paths."""
    try:
        found = os.stat(path)
    except OSError:
        return "-"
    return f"{found.st_mtime_ns:x}.{found.st_size:x}.{found.st_ino:x}"
