"""A corpus on disk: written whole or not at all, and never trusted without its hashes."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from testigo.corpus.images import FOLDER, SEALED_FOLDER, image_bytes, is_image, stored_name
from testigo.corpus.row import Row, digest_of
from testigo.disk import file_sha256, write_atomically
from testigo.errors import DataError, WorkspaceError

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = 2
DUPLICATES = "duplicates.parquet"
INDEX = "index.parquet"
"""Ids, splits and digests of all rows, the sealed ones too: what changed is told without opening them."""
SEALED_MODE = 0o400
FILES = {"train": "train.parquet", "validation": "validation.parquet", "test": "sealed/test.parquet"}


@dataclass(frozen=True)
class Corpus:
    """Rows that were read, cleaned and split once. `note` says what `build` did: built, reused or rebuilt, and why."""

    fingerprint: str
    folder: Path
    manifest: dict[str, Any]
    note: str = ""

    @property
    def counts(self) -> dict[str, int]:
        """Split -> number of rows, the sealed one too."""
        return {name: self.manifest["splits"][name]["rows"] for name in FILES}

    def rows(self, split: str) -> tuple[Row, ...]:
        """The rows of "train" or "validation", by id.

        Raises
        ------
        DataError
            For the sealed test split, for an unknown split, and for a file that is missing or was changed.
        """
        if split not in ("train", "validation"):
            sealed = split == "test"
            raise DataError(
                expected="train or validation",
                found="the test rows, which are sealed" if sealed else f"'{split}'",
                where=str(self.folder),
                action="open them once, at the end, with `testigo open-test`" if sealed else "name another split",
            )
        return _read(self, split)


def open_sealed(corpus: Corpus) -> tuple[Row, ...]:
    """The test rows. Nothing else reads them; who calls this writes the opening into the ledger first.

    Raises
    ------
    DataError
        When the file is missing or was changed.
    """
    return _read(corpus, "test")


def check_seal(corpus: Corpus) -> None:
    """Compare the sealed file with its hash, before an opening is recorded.

    Raises
    ------
    DataError
        When the test rows are not those that were sealed, or are missing.
    """
    path = corpus.folder / FILES["test"]
    try:
        is_changed = file_sha256(path) != corpus.manifest["splits"]["test"]["sha256"]
        found = "the file was changed"
    except OSError as error:
        is_changed, found = True, error.strerror or "it cannot be read"
    if is_changed:
        raise DataError(
            expected="the test rows as they were sealed",
            found=found,
            where=str(path),
            action=f"delete the folder {corpus.folder}; the next command builds the same corpus again from the rows",
        )


def open_corpus(folder: Path) -> Corpus:
    """The corpus of a folder, after its hashes were checked.

    Raises
    ------
    DataError
        When something is missing or was changed.
    """
    fault = find_fault(folder)
    if fault is not None:
        raise DataError(
            expected="a corpus as it was built", found=fault, where=str(folder), action="run the campaign to rebuild it"
        )
    manifest = _manifest(folder)
    return Corpus(manifest["fingerprint"], folder, manifest)


def find_fault(folder: Path, fingerprint: str | None = None) -> str | None:
    """What is wrong with a corpus folder, in words; None when all hashes hold.

    Of the sealed file size and permission alone are looked at: its bytes are read and hashed when the test is opened,
    and by nothing else.
    """
    try:
        manifest = _manifest(folder)
        if manifest["format"] != FORMAT:
            return f"manifest.json has the format {manifest['format']}, not {FORMAT}"
        if fingerprint not in (None, manifest["fingerprint"]):
            return "manifest.json has another fingerprint"
        expected = {name: manifest["splits"][name]["sha256"] for name in FILES}
        n_sealed_bytes = manifest["splits"]["test"]["bytes"]
        if manifest["sha256"] != _own_digest(manifest):
            return "manifest.json was changed"
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"manifest.json cannot be read: {type(error).__name__}"
    for name, file in FILES.items():
        try:
            if name == "test":
                is_changed = (folder / file).stat().st_size != n_sealed_bytes
            else:
                is_changed = file_sha256(folder / file) != expected[name]
            if is_changed:
                return f"{file} was changed"
        except OSError as error:
            return f"{file} cannot be read: {error.strerror}"
    for file, sha256 in ((INDEX, manifest.get("index_sha256")), (DUPLICATES, manifest.get("duplicates_sha256"))):
        try:
            if (sha256 or file == INDEX) and file_sha256(folder / file) != sha256:
                return f"{file} was changed"
        except OSError as error:
            return f"{file} cannot be read: {error.strerror}"
    for name, n_files in manifest.get("images", {}).get("files", {}).items():
        if _n_files(folder / name) != n_files:  # each file's bytes are compared with their hash when it is opened
            return f"{name} holds {_n_files(folder / name)} files, not {n_files}"
    return None


def write_corpus(
    folder: Path,
    splits: Mapping[str, Sequence[Row]],
    manifest: Mapping[str, Any],
    roots: Mapping[str, Path] | None = None,
    duplicates: pa.Table | None = None,
) -> dict[str, Any]:
    """Write a corpus beside its place, put it on the disk for good, and only then give it its name.

    A folder that stands there already is replaced. Returns the manifest with the splits and its own digest.

    Parameters
    ----------
    roots
        Row id -> the folder in which the paths of its images start. The files are copied into the corpus.
    duplicates
        All pairs of duplicates, by id; no texts.

    Raises
    ------
    WorkspaceError
        When the disk is full or the folder cannot be written; nothing half-written stays.
    """
    aside = folder.with_name(f".{folder.name}.{os.getpid()}.new")
    _remove_left_by_the_dead(folder)
    try:
        (aside / "sealed").mkdir(parents=True)
        written = {name: _write_split(aside / file, splits[name]) for name, file in FILES.items()}
        for name, own in splits.items():
            _copy_images(aside / (SEALED_FOLDER if name == "test" else FOLDER), own, roots or {})
        n_images = {name: _n_files(aside / name) for name in (FOLDER, SEALED_FOLDER)}
        (aside / FILES["test"]).chmod(SEALED_MODE)
        whole = {**manifest, "format": FORMAT, "splits": written}
        whole["index_sha256"] = _write_index(aside / INDEX, splits)
        if "images" in whole:
            whole["images"] = {**whole["images"], "files": n_images}
        if duplicates is not None:
            import pyarrow.parquet as pq

            pq.write_table(duplicates, aside / DUPLICATES)
            _sync(aside / DUPLICATES)
            whole["duplicates_sha256"] = file_sha256(aside / DUPLICATES)
        whole["sha256"] = _own_digest(whole)
        (aside / "manifest.json").write_text(_text_of(whole), encoding="utf-8")
        for path in (
            *(aside / file for file in FILES.values()),
            aside / INDEX,
            aside / "manifest.json",
            aside / "sealed",
            aside,
        ):
            _sync(path)
        _take_place(aside, folder)
    except OSError as error:
        raise WorkspaceError(
            expected="a workspace that can be written, with room for the rows",
            found=error.strerror or type(error).__name__,
            where=str(folder),
            action="free space, give write permission, or name another --workspace",
        ) from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return whole


def read_index(corpus: Corpus) -> dict[str, tuple[str, str]]:
    """Row id -> its split and its digest, of all three splits: the sealed rows are known by these alone.

    Raises
    ------
    DataError
        When the file is missing or was changed.
    """
    table = _table_of(corpus.folder / INDEX, corpus.manifest["index_sha256"])
    return {row["id"]: (row["split"], row["digest"]) for row in table}


def _write_index(path: Path, splits: Mapping[str, Sequence[Row]]) -> str:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = sorted((row.id, name, row.digest) for name, own in splits.items() for row in own)
    columns = {name: [row[n] for row in rows] for n, name in enumerate(("id", "split", "digest"))}
    schema = pa.schema([(name, pa.large_string()) for name in columns])
    pq.write_table(pa.table(columns, schema=schema), path)
    return file_sha256(path)


def rename_unit(folder: Path, manifest: Mapping[str, Any], unit: str) -> dict[str, Any]:
    """The manifest with the campaign's present word for what is never torn apart; the rows do not depend on it."""
    told = manifest.get("split", {})
    if told.get("unit", unit) == unit:
        return dict(manifest)
    renamed = {**manifest, "split": {**told, "unit": unit}}
    renamed["sha256"] = _own_digest(renamed)
    write_atomically(folder / "manifest.json", _text_of(renamed))
    return renamed


def _text_of(manifest: Mapping[str, Any]) -> str:
    return json.dumps(manifest, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


def close_seal(folder: Path) -> str:
    """Take back permissions on the test rows that were given since they were sealed; says so, else nothing."""
    path = folder / FILES["test"]
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode == SEALED_MODE:
        return ""
    path.chmod(SEALED_MODE)
    return f"the seal stood open (mode {mode:o}) and was closed"


def _remove_left_by_the_dead(folder: Path) -> None:
    """What a killed process had written aside: it holds rows, the sealed ones too."""
    for left in folder.parent.glob(f".{folder.name}.*"):
        writer = left.name.split(".")[-2]
        if writer == str(os.getpid()) or (writer.isdigit() and not psutil.pid_exists(int(writer))):
            shutil.rmtree(left, ignore_errors=True)


def _take_place(aside: Path, folder: Path) -> None:
    old = folder.with_name(f".{folder.name}.{os.getpid()}.old")
    if folder.exists():
        folder.rename(old)
    aside.rename(folder)
    _sync(folder.parent)
    shutil.rmtree(old, ignore_errors=True)


def _copy_images(into: Path, rows: Sequence[Row], roots: Mapping[str, Path]) -> None:
    """The files that rows name, by their hash: a corpus is whole by itself."""
    for row in rows:
        for value in row.fields.values():
            if is_image(value) and "image" in value and row.id in roots:
                into.mkdir(exist_ok=True)
                path = into / stored_name(value)
                if not path.exists():
                    path.write_bytes(image_bytes(value, roots[row.id]))
                    path.chmod(0o400)
                    _sync(path)


def _n_files(folder: Path) -> int:
    return len(list(folder.iterdir())) if folder.is_dir() else 0


def _write_split(path: Path, rows: Sequence[Row]) -> dict[str, Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    ordered = sorted(rows, key=lambda row: row.id)
    columns = {
        "id": [row.id for row in ordered],
        "group": [row.group for row in ordered],
        "category": [row.category for row in ordered],
        "fields": [json.dumps(row.fields, ensure_ascii=False) for row in ordered],
        "digest": [row.digest for row in ordered],
    }
    schema = pa.schema([(name, pa.large_string()) for name in columns])
    pq.write_table(pa.table(columns, schema=schema), path)
    return {
        "rows": len(ordered),
        "groups": len({row.group for row in ordered}),
        "categories": dict(sorted(Counter(row.category for row in ordered).items())),
        "bytes": path.stat().st_size,
        "sha256": file_sha256(path),
        "rows_sha256": digest_of(sorted(row.digest for row in ordered)),
    }


def _read(corpus: Corpus, split: str) -> tuple[Row, ...]:
    table = _table_of(corpus.folder / FILES[split], corpus.manifest["splits"][split]["sha256"])
    return tuple(
        Row(row["id"], row["group"], row["category"], json.loads(row["fields"]), row["digest"]) for row in table
    )


def _table_of(path: Path, sha256: str) -> list[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        content = path.read_bytes()
    except OSError as error:
        raise _changed(path, error.strerror or "it cannot be read") from None
    if hashlib.sha256(content).hexdigest() != sha256:
        raise _changed(path, "the file was changed")
    rows: list[dict[str, Any]] = pq.read_table(pa.BufferReader(content)).to_pylist()
    return rows


def _changed(path: Path, found: str) -> DataError:
    return DataError(
        expected="the rows as they were split", found=found, where=str(path), action="run the campaign to rebuild it"
    )


def _manifest(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    return content


def _own_digest(manifest: Mapping[str, Any]) -> str:
    return digest_of({key: value for key, value in manifest.items() if key != "sha256"})


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
