"""What the report is drawn from beside the outputs: the files are in the dossier, their digests in the ledger's events.

An event that ends a pilot or a run, and the one that tells of the rows, keeps the digest of each file under
`evidence`. So a number that was changed later, in a file or in what was drawn from it, is found. Events of earlier
versions keep none: what rests on them is told as not checked.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from testigo.corpus.row import Row, canonical_json, digest_of
from testigo.dossier.files import read_json, read_lines
from testigo.ledger import Event, kinds

FOLDER = "evidence"
OF_THE_PILOT = ("phases.json", "findings.json")
OF_A_RUN = ("steps.jsonl", "findings.jsonl", "samples.jsonl", "result.json")
MANIFEST = "manifest.json"
ROWS, DIGESTS = "rows.jsonl", "validation.json"
"""The rows that are shown as examples, and the digests of all validation rows, by id."""
_PIECE_BYTES = 1 << 20


@dataclass(frozen=True)
class Bound:
    """A file as an event recorded it.

    `may_grow`: the run was interrupted, and a process that its starter lost may have added lines before it ended too.
    """

    sha256: str
    n_bytes: int
    event: int
    may_grow: bool


def digests(folder: Path, names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Size and digest of each file that is there, for the event that ends what wrote them."""
    found = {}
    for name in names:
        if (folder / name).is_file():
            n_bytes = (folder / name).stat().st_size
            found[name] = {"bytes": n_bytes, "sha256": _sha256(folder / name, n_bytes)}
    return found


def digest_of_manifest(manifest: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The same of what the dossier carries of the corpus's manifest."""
    content = manifest_text(manifest).encode()
    return {MANIFEST: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}}


def manifest_text(manifest: Mapping[str, Any]) -> str:
    """A manifest without the texts of rows: those of duplicates stay in the workspace."""
    told = manifest.get("duplicates")
    if isinstance(told, Mapping):
        manifest = {**manifest, "duplicates": {name: value for name, value in told.items() if name != "shown"}}
    return canonical_json(manifest)


def carry(
    into: Path, *, manifest: Mapping[str, Any] | None, pilot: Path | None, runs: Iterable[tuple[str, Path]]
) -> None:
    """Copy the evidence, as it is now, into a folder: a run may go on while the dossier is written."""
    shutil.rmtree(into, ignore_errors=True)
    if manifest is not None:
        _write(into / "corpus" / MANIFEST, manifest_text(manifest))
    places: list[tuple[str, Path, tuple[str, ...]]] = [("pilot", pilot, OF_THE_PILOT)] if pilot else []
    places += [(f"runs/{name}", folder, OF_A_RUN) for name, folder in runs]
    for place, folder, names in places:
        for name in names:
            if (folder / name).is_file():
                (into / place).mkdir(parents=True, exist_ok=True)
                shutil.copyfile(folder / name, into / place / name)


def carry_rows(into: Path, rows: Sequence[Row], shown: Iterable[str]) -> None:
    """The rows that are shown, and the digests by which each is known as a validation row of the corpus."""
    wanted = set(shown)
    known = [row for row in rows if row.id in wanted and digest_of(row.fields) == row.digest]
    lines = [json.dumps({"id": row.id, "fields": row.fields}, ensure_ascii=False) for row in known]
    if lines:
        _write(into / "corpus" / ROWS, "".join(f"{line}\n" for line in lines))
        _write(into / "corpus" / DIGESTS, canonical_json({row.id: row.digest for row in rows}))


def recorded(events: Iterable[Event]) -> dict[str, dict[str, Bound]]:
    """Place below `evidence/` -> its files as the last event about it recorded them; no place that none recorded."""
    found: dict[str, dict[str, Bound]] = {}
    for event in events:
        place = _place_of(event)
        if place:
            found.pop(place, None)  # the last event holds; a run that was started again has none until it ends
            told = event.body.get("evidence")
            if isinstance(told, Mapping):
                grows = event.body.get("state") == "interrupted"
                found[place] = {PurePath(str(name)).name: _bound(event, one, grows) for name, one in told.items()}
    return found


def faults_of(folder: Path, bound: Mapping[str, Mapping[str, Bound]]) -> Iterable[str]:
    """Each file of a dossier that is not what its event recorded."""
    for place, files in bound.items():
        there = folder / FOLDER / place
        for name, one in files.items():
            path = there / name
            if one.may_grow and name == "result.json" and not path.exists():
                continue  # the next attempt takes it away before its start is recorded
            if path.is_symlink() or not path.is_file():
                yield f"{FOLDER}/{place}/{name}: missing, and the ledger recorded it"
                continue
            n_bytes = path.stat().st_size
            if n_bytes != one.n_bytes and not (one.may_grow and n_bytes > one.n_bytes):
                yield (
                    f"{FOLDER}/{place}/{name}: is not the file that event {one.event} recorded: "
                    f"{n_bytes} bytes, and it had {one.n_bytes}"
                )
            elif _sha256(path, one.n_bytes) != one.sha256:
                yield f"{FOLDER}/{place}/{name}: is not the file that event {one.event} recorded"
        known = OF_A_RUN if place.startswith("runs/") else OF_THE_PILOT if place == "pilot" else ()
        grows = any(one.may_grow for one in files.values())
        for name in known:
            if name not in files and (there / name).is_file() and not grows:
                yield f"{FOLDER}/{place}/{name}: is there, and the ledger recorded none"


def grown(folder: Path, bound: Mapping[str, Mapping[str, Bound]]) -> list[str]:
    """Files with more in them than was recorded when their run was interrupted."""
    return [
        f"{FOLDER}/{place}/{name} beyond what event {one.event} recorded"
        for place, files in bound.items()
        for name, one in files.items()
        if one.may_grow and (path := folder / FOLDER / place / name).is_file() and path.stat().st_size > one.n_bytes
    ]


def rows_shown(folder: Path) -> tuple[dict[str, Mapping[str, Any]], list[str]]:
    """The fields of the rows that are shown, by id, and those that are no validation rows of the manifest beside them.

    A row is known by the digest of its fields, and the manifest knows the digests of all of them together.
    """
    corpus = folder / FOLDER / "corpus"
    lines, known = read_lines(corpus / ROWS), read_json(corpus / DIGESTS) or {}
    manifest = read_json(corpus / MANIFEST) or {}
    if not lines:
        return {}, []
    splits = manifest.get("splits")
    own = splits.get("validation") if isinstance(splits, Mapping) else None
    together = own.get("rows_sha256") if isinstance(own, Mapping) else None
    if digest_of(sorted(map(str, known.values()))) != together:
        return {}, [f"{FOLDER}/corpus/{DIGESTS}: has not the digests of the validation rows in {MANIFEST}"]
    shown: dict[str, Mapping[str, Any]] = {}
    faults = []
    for line in lines:
        name, fields = str(line.get("id")), line.get("fields")
        if isinstance(fields, Mapping) and digest_of(fields) == known.get(name):
            shown[name] = fields
        else:
            faults.append(f"{FOLDER}/corpus/{ROWS}: row {name!r} is no validation row of the corpus")
    return shown, faults


def _place_of(event: Event) -> str:
    if event.kind == kinds.CORPUS_BUILT:
        return "corpus"
    if event.kind in (kinds.PILOT_FINISHED, kinds.PILOT_REPEATED):
        return "pilot"  # the look at the data, where it stops before the pilot, has no evidence
    name = event.run or ""
    is_name = bool(name) and PurePath(name).name == name and "\\" not in name
    return f"runs/{name}" if is_name and event.kind in (kinds.RUN_STARTED, kinds.RUN_ENDED) else ""


def _bound(event: Event, told: Any, may_grow: bool) -> Bound:
    return Bound(str(told["sha256"]), int(told["bytes"]), event.number, may_grow)


def _sha256(path: Path, n_bytes: int) -> str:
    """The digest of the first bytes of a file: more may be added while it is read."""
    digest, left = hashlib.sha256(), n_bytes
    with path.open("rb") as file:
        while left and (piece := file.read(min(left, _PIECE_BYTES))):
            digest.update(piece)
            left -= len(piece)
    return digest.hexdigest()


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")
