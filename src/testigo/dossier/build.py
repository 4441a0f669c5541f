"""Writing the dossier: aside, whole, then swapped in; what an export put beside it is kept."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testigo.campaign import Campaign, Workspace
from testigo.dossier import crate, croissant, evidence, sums, twin
from testigo.dossier.card import model_card
from testigo.dossier.gather import carry_evidence, gather, outputs_to_keep, validation_rows
from testigo.dossier.handed_over import FOLDER, is_withdrawn
from testigo.dossier.record import Record
from testigo.dossier.report import html
from testigo.errors import WorkspaceError
from testigo.ledger import Ledger, kinds

OURS = (
    "index.html",
    "dossier.json",
    "dossier.schema.json",
    "MODEL_CARD.md",
    "campaign.yaml",
    "events.jsonl",
    "predictions",
    evidence.FOLDER,
    crate.NAME,
    croissant.NAME,
    sums.NAME,
    sums.SIGNATURE,
)
_ATTEMPTS = 5


def build_dossier(workspace: Workspace, campaign: Campaign, ledger: Ledger) -> Path:
    """Write the report on everything that happened so far and return its folder.

    It can be written at any time: what is missing is named in it. The folder is replaced as a whole, so that a reader
    never sees half of it; `adapter/` and whatever else an export put there is kept, but for the adapter of a run that
    is invalid.

    Raises
    ------
    WorkspaceError
        When the folder cannot be written.
    """
    target = workspace.dossier
    aside, old = target.with_name(f".{target.name}.new"), target.with_name(f".{target.name}.old")
    try:
        with _alone(target.with_name(f".{target.name}.lock")):
            _mend(target, aside, old)
            _write(workspace, campaign, ledger, aside)
            if target.exists():
                target.rename(old)
            aside.rename(target)
            shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        raise WorkspaceError(
            expected="a dossier folder that can be written",
            found=error.strerror or str(error),
            where=str(error.filename or target),
            action="free disk space, or make the folder writable, and write the dossier again",
        ) from error
    return target


def _write(workspace: Workspace, campaign: Campaign, ledger: Ledger, folder: Path) -> None:
    folder.mkdir(parents=True)
    record = _write_events(folder / "events.jsonl", workspace, campaign, ledger)
    _write_texts(folder, record)
    if any(one.prompt for one in record.examples):
        shown = [one.row for one in record.examples]
        evidence.carry_rows(folder / evidence.FOLDER, validation_rows(workspace, ledger), shown)
    for made in outputs_to_keep(workspace, ledger):
        _copy(made.path, folder / made.file)
        settings = made.path.with_suffix(".meta.json")
        if settings.is_file():
            _copy(settings, (folder / made.file).with_suffix(".meta.json"))
    withdrawn = is_withdrawn(workspace, ledger.runs(), ledger.events(kind=kinds.EXPORTED))
    _keep_others(workspace.dossier, folder, without=FOLDER if withdrawn else "")
    sums.write_sums(folder)
    _flush(folder)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Two that write at once would write into one folder: the second waits."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _mend(target: Path, aside: Path, old: Path) -> None:
    """Undo what a crash between the two renames may have left."""
    if old.exists() and not target.exists():
        old.rename(target)
    shutil.rmtree(old, ignore_errors=True)
    if aside.exists():
        shutil.rmtree(aside)


def _write_events(path: Path, workspace: Workspace, campaign: Campaign, ledger: Ledger) -> Record:
    """Export the ledger and gather the record from the same events, though others may be appending.

    What the record is drawn from is copied first: the curve that is told is that of the file that is carried.
    """
    kept = path.with_name(evidence.FOLDER)
    for _ in range(_ATTEMPTS):
        exported = ledger.export(path)
        carry_evidence(workspace, ledger, kept)
        record = gather(workspace, campaign, ledger, kept)
        if record.ledger.events == exported:
            return record
    raise WorkspaceError(
        expected="a ledger that is quiet for a second",
        found="events that keep coming",
        where=str(workspace.ledger_path),
        action="write the dossier when no run is going on",
    )


def _write_texts(folder: Path, record: Record) -> None:
    text = twin.to_json(record)
    # Drawn from the twin, not from memory: whoever has the twin can draw the same page.
    same = twin.from_json(text)
    contents = {
        "dossier.json": text,
        "dossier.schema.json": twin.SCHEMA_FILE.read_text(encoding="utf-8"),
        "index.html": html(same),
        "MODEL_CARD.md": model_card(same),
        crate.NAME: crate.crate(same),
        croissant.NAME: croissant.croissant(same),
        "campaign.yaml": record.plan.text,
    }
    for name, content in contents.items():
        if content:
            (folder / name).write_text(content, encoding="utf-8", newline="\n")


def _keep_others(target: Path, aside: Path, *, without: str = "") -> None:
    """Carry over what is not ours, by hard links where the disk allows it: weights may be large."""
    if not target.is_dir():
        return
    for path in sorted(target.iterdir()):
        if path.name in OURS or path.name == without:
            continue
        files = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
        for file in files:
            _copy(file, aside / file.relative_to(target), link=True)


def _copy(source: Path, to: Path, *, link: bool = False) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    if link:
        try:
            os.link(source, to, follow_symlinks=True)
            return
        except OSError:
            pass  # another disk, or one without hard links
    shutil.copy2(source, to)


def _flush(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
