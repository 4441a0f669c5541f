"""Sealed rows as garbage of the same size, with the time of their last reading known: any reader is found.

Whoever understands the rows fails on the garbage, in any process and any language; whoever reads no more than the
bytes, for a hash, moves the time of reading, where the disk keeps it (`notes_reading`).
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

UNREAD_SECONDS = 86_400.0  # a time of reading before that of writing: the next read moves it (mount option relatime)


def sealed(workspace: Path) -> Path:
    """The test rows of the workspace's only corpus."""
    (path,) = workspace.glob("corpus/*/sealed/test.parquet")
    return path


def garble(path: Path) -> bytes:
    """Put garbage in the place of a file; returns what it held."""
    content = path.read_bytes()
    _write(path, bytes(255 - byte for byte in content))
    mark_unread(path)
    return content


def restore(path: Path, content: bytes) -> None:
    _write(path, content)


def mark_unread(path: Path) -> None:
    os.utime(path, (UNREAD_SECONDS, path.stat().st_mtime))


def was_read(path: Path) -> bool:
    return path.stat().st_atime != UNREAD_SECONDS


def notes_reading(folder: Path) -> bool:
    """Whether the disk keeps the time of reading (not under the mount option noatime)."""
    probe = folder / "read-me"
    probe.write_text("read")
    mark_unread(probe)
    probe.read_text()
    return was_read(probe)


def _write(path: Path, content: bytes) -> None:
    mode = stat.S_IMODE(path.stat().st_mode)
    path.chmod(0o600)
    path.write_bytes(content)
    path.chmod(mode)
