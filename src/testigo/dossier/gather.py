"""Everything that the report says, gathered from the ledger and the folders of the workspace into one `Record`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import testigo
from testigo.campaign import Campaign, Workspace
from testigo.corpus import Corpus, Row
from testigo.dossier import evidence
from testigo.dossier import missing as absent
from testigo.dossier.beside_files import BesidePath, beside_file, beside_kept
from testigo.dossier.comparison_facts import Rows, comparison_from, examples_from, rows_kept
from testigo.dossier.corpus_facts import data_from, samples_confirmed
from testigo.dossier.files import finite, n_lines, read_json, read_lines, sha256_of, words
from testigo.dossier.gate_facts import flat, gates_from
from testigo.dossier.generations import generations_from
from testigo.dossier.handed_over import is_withdrawn
from testigo.dossier.history import amendments, notes, openings, registration, waivers
from testigo.dossier.language import speaking
from testigo.dossier.promise import hypothesis_from, plan_from
from testigo.dossier.record import (
    FORMAT,
    Adapter,
    Comparison,
    Example,
    LedgerFacts,
    PredictionFile,
    Record,
    Run,
)
from testigo.dossier.run_facts import as_recorded, mean_scores, own_from
from testigo.dossier.times import times_from
from testigo.errors import TestigoError
from testigo.ledger import Event, Ledger
from testigo.tasks import Task, task_for

_DRAWING_LIBRARIES = ("altair", "vl-convert-python", "jinja2", "babel")


def gather(workspace: Workspace, campaign: Campaign, ledger: Ledger, kept: Path | None = None) -> Record:
    """Read the workspace into a record, in English. Missing parts are named in it; nothing of it is written.

    Parameters
    ----------
    kept
        Where `carry_evidence` has put what the dossier will carry: what stands there is what is told.
    """
    with speaking("en"), _kept(workspace, ledger, kept) as folder:
        return _gather(workspace, campaign, ledger, folder)


@contextmanager
def _kept(workspace: Workspace, ledger: Ledger, kept: Path | None) -> Iterator[Path]:
    if kept is not None:
        yield kept
        return
    with TemporaryDirectory() as aside:
        carry_evidence(workspace, ledger, Path(aside))
        yield Path(aside)


def carry_evidence(workspace: Workspace, ledger: Ledger, into: Path) -> None:
    """Copy what the report is drawn from: of the rows, of the pilot that holds, and of each run."""
    corpus, pilot = (
        current_folder(workspace.root / name, ledger.events(kind=kind))
        for name, kind in (("corpus", "corpus-built"), ("pilot", "pilot-finished"))
    )
    manifest = read_json(corpus / evidence.MANIFEST) if corpus else None
    runs = [(run.id, workspace.run(run.id)) for run in ledger.runs()]
    evidence.carry(into, manifest=manifest, pilot=pilot, runs=runs)


def validation_rows(workspace: Workspace, ledger: Ledger) -> tuple[Row, ...]:
    """The rows of the corpus that holds, as far as they can be read."""
    folder = current_folder(workspace.root / "corpus", ledger.events(kind="corpus-built"))
    manifest = read_json(folder / evidence.MANIFEST) if folder else None
    try:
        return _corpus(folder, manifest).rows("validation") if folder and manifest else ()
    except (TestigoError, OSError, KeyError):
        return ()


def _corpus(folder: Path, manifest: dict[str, Any]) -> Corpus:
    return Corpus(fingerprint=str(manifest.get("fingerprint", folder.name)), folder=folder, manifest=manifest)


def _gather(workspace: Workspace, campaign: Campaign, ledger: Ledger, kept: Path) -> Record:
    events = ledger.events()
    by_kind: dict[str, list[Event]] = {}
    for event in events:
        by_kind.setdefault(event.kind, []).append(event)
    root = workspace.root
    task = task_for(campaign)
    plan, hypothesis = plan_from(campaign), hypothesis_from(campaign)
    manifest_folder = current_folder(root / "corpus", by_kind.get("corpus-built", ()))
    manifest = read_json(manifest_folder / "manifest.json") if manifest_folder else None
    baseline_folder = current_folder(root / "baseline", by_kind.get("baseline-evaluated", ()))
    gates = gates_from(kept / "pilot")
    runs = tuple(
        as_recorded(
            run,
            own_from(run, kept / "runs" / run.id, hypothesis.metric),
            read_lines(workspace.run(run.id) / "predictions" / "validation.jsonl"),
            events=by_kind.get("run-invalidated", ()),
            price_per_hour=plan.price_per_hour,
            metrics=plan.metrics,
        )
        for run in ledger.runs()
    )
    samples = samples_confirmed(by_kind.get("samples-confirmed", ()), by_kind.get("run-started", ()))
    folders = [(run.id, workspace.run(run.id)) for run in runs]
    rows = rows_kept(baseline_folder, folders)
    beside = beside_kept(
        baseline_folder, folders, by_kind.get("baseline-evaluated", ()), by_kind.get("run-evaluated", ())
    )
    on_validation, on_test = (
        comparison_from(
            root,
            split,
            rows=rows,
            beside=beside,
            runs=runs,
            events=events,
            plan=plan,
            hypothesis=hypothesis,
        )
        for split in ("validation", "test")
    )
    comparison = on_test or on_validation
    split = comparison.split if comparison else "validation"
    baseline_lines = [
        line for item in rows if (item.of, item.split) == ("baseline", split) for line in read_lines(item.path)
    ]
    record = Record(
        format=FORMAT,
        testigo_version=testigo.__version__,
        plan=plan,
        hypothesis=hypothesis,
        registration=registration(by_kind.get("campaign-registered", ())),
        amendments=amendments(by_kind.get("campaign-amended", ()), events),
        waivers=waivers(by_kind.get("gate-waived", ()), campaign.waive, gates),
        openings=openings(by_kind.get("test-opened", ())),
        notes=notes(by_kind.get("note", ())),
        data=data_from(told, samples) if (told := read_json(kept / "corpus" / evidence.MANIFEST)) else None,
        baseline=mean_scores(baseline_lines, plan.metrics),
        n_baseline=len(baseline_lines),
        gates=gates,
        runs=runs,
        comparison=comparison,
        on_validation=on_validation if on_test else None,
        examples=_examples(comparison, rows, manifest_folder, manifest, campaign, task),
        generations=generations_from(kept / "runs" / comparison.run, hypothesis.metric) if comparison else (),
        times=times_from(root, campaign, events),
        predictions=tuple(prediction_file(item) for item in rows),
        beside_files=tuple(beside_file(item) for item in beside),
        adapter=None
        if is_withdrawn(workspace, ledger.runs(), by_kind.get("exported", ()))
        else adapter_from(workspace.dossier / "adapter"),
        environment=environment_of(kept, runs, rows, gates.platform if gates else {}),
        drawn_with=drawn_with(),
        ledger=ledger_facts(events, ledger.verify()),
        missing=(),
    )
    return absent.with_missing(record)


def drawn_with() -> dict[str, str]:
    """The libraries that turn the record into the page: the same ones give the same page, byte for byte."""
    return {"testigo": testigo.__version__, **{name: version(name) for name in _DRAWING_LIBRARIES}}


def outputs_to_keep(workspace: Workspace, ledger: Ledger) -> list[Rows | BesidePath]:
    """The files of outputs that the dossier carries."""
    events = ledger.events(kind="baseline-evaluated")
    baseline = current_folder(workspace.root / "baseline", events)
    folders = [(run.id, workspace.run(run.id)) for run in ledger.runs()]
    beside = beside_kept(baseline, folders, events, ledger.events(kind="run-evaluated"))
    return [*rows_kept(baseline, folders), *beside]


def current_folder(parent: Path, events: Sequence[Event]) -> Path | None:
    """The folder that the last event names by its fingerprint; without one, the newest folder."""
    for event in reversed(events):
        for key in ("fingerprint", "folder", "baseline", "pilot", "corpus"):
            name = event.body.get(key)
            if isinstance(name, str) and name and (parent / Path(name).name).is_dir():
                return parent / Path(name).name
    folders = [path for path in parent.iterdir() if path.is_dir()] if parent.is_dir() else []
    whole = [path for path in folders if not path.name.startswith((".", "_"))]
    return max(whole, key=lambda path: (path.stat().st_mtime, path.name)) if whole else None


def _examples(
    comparison: Comparison | None,
    rows: Sequence[Rows],
    folder: Path | None,
    manifest: dict[str, Any] | None,
    campaign: Campaign,
    task: Task,
) -> tuple[Example, ...]:
    by_file = {item.file: item.path for item in rows}
    if comparison is None or comparison.baseline_file not in by_file or comparison.tuned_file not in by_file:
        return ()
    texts: dict[str, tuple[str, str]] = {}
    # The sealed test is never read for the sake of examples.
    if folder and manifest and comparison.split != "test":
        try:
            for row in _corpus(folder, manifest).rows("validation"):
                prompt = words(row.fields.get(campaign.task.input or ""))
                texts[row.id] = (prompt, task.target(row.fields))
        except (TestigoError, OSError):
            texts = {}  # the manifest is there and the rows are not: outputs alone are still worth showing
    return examples_from(comparison, by_file[comparison.baseline_file], by_file[comparison.tuned_file], texts)


def prediction_file(item: Rows) -> PredictionFile:
    """A file of outputs as the record holds it."""
    return PredictionFile(
        file=item.file,
        of=item.of,
        split=item.split,
        rows=n_lines(item.path),
        sha256=sha256_of(item.path),
        settings=finite(read_json(item.path.with_suffix(".meta.json")) or {}),
    )


def adapter_from(folder: Path) -> Adapter | None:
    """The exported adapter as its own record tells it; None without one."""
    bound = read_json(folder / "testigo.json")
    if bound is None:
        return None
    base = bound.get("base")
    base = base if isinstance(base, Mapping) else {}
    hashes = bound.get("sha256")
    return Adapter(
        base=words(base.get("name")),
        base_revision=words(base.get("revision")),
        base_weights_sha256=words(base.get("weights_sha256")),
        base_code_sha256=words(base.get("code_sha256")),
        trained_tensors=len(bound.get("trained") or ()),
        control_rows=len(bound.get("control_inputs") or ()),
        files={str(name): str(digest) for name, digest in (hashes if isinstance(hashes, Mapping) else {}).items()},
    )


def environment_of(
    kept: Path, runs: Sequence[Run], rows: Sequence[Rows], platform: Mapping[str, str]
) -> dict[str, str]:
    """Platform and versions. Where two runs used different versions, both are shown."""
    found: dict[str, set[str]] = {name: {value} for name, value in platform.items()}
    records = [read_json(kept / "runs" / run.id / "result.json") or {} for run in runs]
    records += [read_json(item.path.with_suffix(".meta.json")) or {} for item in rows]
    for record in records:
        versions = record.get("versions")
        for name, value in flat(versions).items() if isinstance(versions, Mapping) else ():
            found.setdefault(name, set()).add(value)
    return {name: " / ".join(sorted(values)) for name, values in sorted(found.items())}


def ledger_facts(events: Sequence[Event], faults: Sequence[str]) -> LedgerFacts:
    """The ledger's extent, and what its own check found."""
    kinds: dict[str, int] = {}
    for event in events:
        kinds[event.kind] = kinds.get(event.kind, 0) + 1
    return LedgerFacts(
        events=len(events),
        first_time=str(events[0].time) if events else "",
        last_time=str(events[-1].time) if events else "",
        last_digest=events[-1].digest if events else "",
        faults=tuple(faults),
        kinds=kinds,
    )
