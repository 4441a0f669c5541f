"""Encoded rows on disk, read where they are needed: a run of millions of rows starts as fast as one of a hundred.

Plain numpy arrays, mapped into memory: the ids of all rows behind each other, and where each row begins. Written once
for a corpus, a tokenizer, a template and a length policy, whole or not at all; runs, seeds and attempts share them.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import overload

import numpy as np

from testigo.encoding.row import EncodedRow

#: Changes with what the files hold.
FORMAT = 1
_ARRAYS = ("ids", "bounds", "n_prompt", "spans", "span_bounds", "names", "name_bounds", "categories")


class StoredRows(Sequence[EncodedRow]):
    """Rows that are read from disk one by one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._of = {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in _ARRAYS}
        self._categories: list[str] = json.loads((folder / "categories.json").read_text(encoding="utf-8"))

    def __len__(self) -> int:
        return len(self._of["n_prompt"])

    @property
    def lengths(self) -> np.ndarray:
        """(rows,) of each row [tokens]."""
        return np.diff(self._of["bounds"])

    @overload
    def __getitem__(self, index: int) -> EncodedRow: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[EncodedRow, ...]: ...
    def __getitem__(self, index: int | slice) -> EncodedRow | tuple[EncodedRow, ...]:
        if isinstance(index, slice):
            return tuple(self[k] for k in range(*index.indices(len(self))))
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        k = index % len(self)
        spans = self._part("spans", "span_bounds", k)
        return EncodedRow(
            id=self._part("names", "name_bounds", k).tobytes().decode(),
            category=self._categories[self._of["categories"][k]],
            ids=tuple(self._part("ids", "bounds", k).tolist()),
            n_prompt=int(self._of["n_prompt"][k]),
            spans=tuple((int(begin), int(end)) for begin, end in spans) or None,
        )

    def _part(self, of: str, bounds: str, k: int) -> np.ndarray:
        begin, end = self._of[bounds][k : k + 2]
        return self._of[of][begin:end]


def write(rows: Iterable[EncodedRow], folder: Path) -> None:
    """The files of a store, into an empty folder."""
    made = list(rows)
    names = [row.id.encode() for row in made]
    categories = sorted({row.category for row in made})
    number = {name: k for k, name in enumerate(categories)}
    spans = [row.spans or () for row in made]
    arrays = {
        "ids": np.fromiter((token for row in made for token in row.ids), dtype=np.int32),
        "bounds": _bounds(len(row.ids) for row in made),
        "n_prompt": np.fromiter((row.n_prompt for row in made), dtype=np.int32),
        "spans": np.array([span for own in spans for span in own], dtype=np.int32).reshape(-1, 2),
        "span_bounds": _bounds(map(len, spans)),
        "names": np.frombuffer(b"".join(names), dtype=np.uint8),
        "name_bounds": _bounds(map(len, names)),
        "categories": np.fromiter((number[row.category] for row in made), dtype=np.int32),
    }
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    (folder / "categories.json").write_text(json.dumps(categories), encoding="utf-8")


def stored(folder: Path, key: Sequence[object], make: Callable[[], Iterable[EncodedRow]]) -> StoredRows:
    """The rows under a key, made and written where they are not there yet.

    Parameters
    ----------
    folder
        Of all stores.
    key
        All that the ids depend on.
    """
    name = hashlib.sha256(json.dumps([FORMAT, *key], default=str, sort_keys=True).encode()).hexdigest()[:32]
    own = folder / name
    if not own.exists():
        folder.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(dir=folder, prefix=".making-"))
        try:
            write(make(), aside)
            aside.rename(own)
        except OSError:
            if not own.exists():  # else another process was faster
                raise
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    return StoredRows(own)


def lengths_of(rows: Sequence[EncodedRow]) -> np.ndarray:
    """(rows,) of each row [tokens], without reading rows that are stored."""
    return rows.lengths if isinstance(rows, StoredRows) else np.array([row.n_tokens for row in rows], dtype=np.int64)


def _bounds(lengths: Iterable[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(np.fromiter(lengths, dtype=np.int64))]).astype(np.int64)
