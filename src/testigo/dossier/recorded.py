"""Outputs, adapter and evidence against the digests that the ledger recorded when they were made."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

from testigo.dossier import evidence
from testigo.dossier.files import read_json, read_lines, sha256_of
from testigo.dossier.found import Found
from testigo.dossier.record import Record
from testigo.ledger import kinds


def outputs_and_adapter(folder: Path) -> Iterable[str]:
    """Predictions and adapter against the digests of the events: the ledger knew them when they were made."""
    digests: dict[str, str] = {}
    evaluated: dict[tuple[str, str], dict[str, Any]] = {}  # the last evaluation holds
    exported_by = None
    for event in read_lines(folder / "events.jsonl"):
        body, kind = event.get("body"), event.get("kind")
        if not isinstance(body, dict):
            continue
        if kind in (kinds.BASELINE_EVALUATED, kinds.RUN_EVALUATED) and body.get("sha256"):
            of = "baseline" if kind == kinds.BASELINE_EVALUATED else f"runs/{event.get('run')}"
            evaluated[of, str(body.get("split"))] = body
        elif kind == kinds.EXPORTED and body.get("weights_sha256"):
            digests["adapter/testigo.json"], exported_by = str(body["weights_sha256"]), event.get("run")
        elif kind == kinds.RUN_INVALIDATED and event.get("run") == exported_by:
            digests.pop("adapter/testigo.json", None)  # an invalid run hands nothing over
    for (of, split), body in evaluated.items():
        beside = body.get("beside")
        made = {f"{split}.jsonl": body["sha256"], **(beside if isinstance(beside, dict) else {})}
        digests |= {f"predictions/{of}/{name}": str(digest) for name, digest in made.items()}
    for name, digest in digests.items():
        path = inside(folder, name)
        if path is None or not path.is_file():
            yield f"{name}: missing, and the ledger recorded it"
        elif name.startswith("adapter/"):
            if (read_json(path) or {}).get("weights_sha256") != digest:
                yield f"{name}: is not the adapter that the ledger recorded"
        elif sha256_of(path) != digest:
            yield f"{name}: is not the file that the ledger recorded"


def evidence_recorded(found: Found, record: Record) -> Iterable[str]:
    """Each file of the evidence that is not what the ledger recorded, and rows that are none of the corpus."""
    yield from evidence.faults_of(found.folder, found.bound)
    shown, faults = evidence.rows_shown(found.folder)
    yield from faults
    rows = found.evidence / "corpus" / evidence.ROWS
    if "corpus" in found.bound and not rows.is_file() and any(one.prompt for one in record.examples):
        yield f"{evidence.FOLDER}/corpus/{evidence.ROWS}: missing, and dossier.json shows rows"
    elif shown and (others := [one.row for one in record.examples if one.prompt and one.row not in shown]):
        yield f"{evidence.FOLDER}/corpus/{evidence.ROWS}: has no row {others[0]!r}, and dossier.json shows it"


def inside(folder: Path, name: str) -> Path | None:
    """A file of the folder by its relative name; None for a name that leads out of it."""
    relative = PurePosixPath(name)
    if not name or relative.is_absolute() or ".." in relative.parts or "\\" in name:
        return None
    return folder / relative
