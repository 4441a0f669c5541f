"""A workspace behind its caches: what the page reads, each file again only when it changed."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from testigo.campaign import METRICS, Campaign, Workspace, load
from testigo.campaign.withdrawn import superseded_by, withdrawn_by
from testigo.corpus import Corpus, Row
from testigo.dossier.files import read_json, read_lines
from testigo.dossier.gate_facts import gates_from
from testigo.dossier.gather import current_folder
from testigo.dossier.record import Gates
from testigo.dossier.run_facts import mean_scores
from testigo.errors import TestigoError, WorkspaceError
from testigo.ledger import Event, Ledger, Run, kinds, process_is_alive
from testigo.ledger.question import question_in
from testigo.page.jobs import Jobs
from testigo.page.reading import stamp, stamp_of, tail_of
from testigo.page.steps import Pace, Steps, pace_of

RUN_FILES = (
    "steps.jsonl",
    "findings.jsonl",
    "result.json",
    "log.txt",
    "predictions/progress.json",
    "predictions/validation.jsonl",
    "samples.jsonl",
)
"""What a run's folder is watched for."""
_NEVER = float("-inf")
_OLD_SECONDS, _AGAIN_SECONDS = 120.0, 4.0
_MOST_ROWS_KEPT = 50_000
_LARGE_KEPT = 6
_STEPS_KEPT = 64
"""Runs whose whole steps are held in memory: ten thousand updates take about 3 MB."""
_PACE_BYTES = 24_000
_T = TypeVar("_T")


class Site:
    """One workspace. Use it with `lock` held: several readers may ask at once, and the caches are shared."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.lock = threading.RLock()
        self._real = os.path.realpath(workspace.root)
        self._small: dict[object, tuple[str, Any]] = {}
        self._large: dict[object, tuple[str, Any]] = {}
        self._steps: dict[str, Steps] = {}
        self._settled: dict[str, tuple[float, str]] = {}
        self.jobs = Jobs()
        self._ledger: Ledger | None = None

    # ---- files ------------------------------------------------------------------------------------------------

    def file(self, *parts: str) -> Path:
        """A file of the workspace, there or not.

        Raises
        ------
        WorkspaceError
            When a name or a link leads out of the workspace.
        """
        path = self.workspace.root.joinpath(*parts)
        if not f"{os.path.realpath(path)}{os.sep}".startswith(f"{self._real}{os.sep}"):
            raise WorkspaceError(
                expected="files that lie in the workspace",
                found=f"{'/'.join(parts)} leads out of it",
                where=str(self.workspace.root),
                action="put the file itself there instead of a link; the page shows nothing from elsewhere",
            )
        return path

    def folder_of(self, run: str) -> tuple[str, str]:
        """The parts of a run's folder.

        Raises
        ------
        WorkspaceError
            When the id is no plain name, so that it would lead elsewhere.
        """
        if Path(run).name != run or run in ("", ".", ".."):
            raise WorkspaceError(
                expected="runs with plain names",
                found=repr(run),
                where=str(self.workspace.ledger_path),
                action="look at the ledger with `testigo ledger verify`; Testigo never writes such a name",
            )
        return "runs", run

    def lines(self, *parts: str) -> list[dict[str, Any]]:
        """The JSON objects of a file that is written once, such as predictions."""
        path = self.file(*parts)
        return self._kept(path, stamp(path), lambda: read_lines(path), large=True)

    def small_lines(self, *parts: str) -> list[dict[str, Any]]:
        """The JSON objects of a short file that grows, such as findings."""
        path = self.file(*parts)
        return self._kept(path, stamp(path), lambda: read_lines(path))

    def scores(self, *parts: str) -> dict[str, float]:
        """The mean of each metric over the lines of a predictions file."""
        path = self.file(*parts)
        metrics = METRICS[self.campaign.task.kind] if self.campaign else {}
        return self._kept(("scores", path), stamp(path), lambda: mean_scores(read_lines(path), metrics))

    def findings(self, run: str) -> list[dict[str, Any]]:
        """What the watch wrote about a run; of a run that has ended the files are not looked at each time."""
        known = self._settled.get(run)
        if known is None or known[0] == _NEVER:
            return self.small_lines(*self.folder_of(run), "findings.jsonl")
        return self._kept(("findings", run), known[1], lambda: self.small_lines(*self.folder_of(run), "findings.jsonl"))

    def document(self, *parts: str) -> dict[str, Any]:
        """The JSON object of a file; empty when there is none."""
        path = self.file(*parts)
        return self._kept(path, stamp(path), lambda: read_json(path) or {})

    def comparison(self, split: str) -> dict[str, Any]:
        """The comparison on a split; empty when there is none that still stands: see `testigo.campaign.withdrawn`."""
        if superseded_by(split, self.events):
            return {}
        found = self.document("comparison.json" if split == "validation" else f"comparison-{split}.json")
        told = [event.body for event in self.events if event.kind == kinds.COMPARED]
        named = [body.get("run") for body in told if body.get("split", "validation") == split]
        return {} if withdrawn_by(found, self.runs, named[-1] if named else "") else found

    def steps(self, run: str) -> Steps:
        """A run's steps, read up to now."""
        known = self._steps.pop(run, None) or Steps(self.file(*self.folder_of(run), "steps.jsonl"))
        self._steps[run] = known
        while len(self._steps) > _STEPS_KEPT:
            del self._steps[next(iter(self._steps))]  # the one that was not asked for the longest
        known.refresh()
        return known

    def pace(self, run: str) -> Pace:
        """How fast a run goes, by the end of its steps: of a long run not the whole file is read."""
        path = self.file(*self.folder_of(run), "steps.jsonl")
        return self._kept(("pace", run), stamp(path), lambda: pace_of(tail_of(path, _PACE_BYTES)))

    # ---- ledger and campaign ----------------------------------------------------------------------------------

    @property
    def events(self) -> tuple[Event, ...]:
        """All events; none while the ledger is not there yet."""
        return self._recorded()[0]

    @property
    def runs(self) -> tuple[Run, ...]:
        """All runs of the ledger; one whose process is gone without a word is told as interrupted."""
        return tuple(_as_it_is(run) for run in self._recorded()[1])

    def run(self, id: str) -> Run | None:
        """The run of an id, if the ledger knows it."""
        return next((run for run in self.runs if run.id == id), None)

    def ledger_faults(self) -> tuple[str, ...]:
        """What is wrong with the chain of events; empty when it is whole."""
        state = self._ledger_stamp()
        return self._kept("faults", state, lambda: self._open().verify() if state != "-" else ())

    @property
    def campaign(self) -> Campaign | None:
        """The campaign as its file says now; None when the file is gone or is not valid."""
        path = self.workspace.campaign_path
        if path is None:
            return None

        def read() -> Campaign | None:
            try:
                return load(path)
            except (TestigoError, OSError):
                return None

        return self._kept("campaign", stamp(path), read)

    @property
    def name(self) -> str:
        """The campaign's name."""
        try:
            return self.workspace.campaign_name or self.workspace.root.name
        except TestigoError:
            return self.workspace.root.name

    # ---- folders ----------------------------------------------------------------------------------------------

    def current(self, kind: str, event: str) -> str | None:
        """The name of the current corpus, baseline or pilot folder: the last event's, or one that is newer."""
        of_kind = [one for one in self.events if one.kind == event]
        found = current_folder(self.file(kind), of_kind)
        newest = current_folder(self.file(kind), ())
        if found is None or newest is None:
            return None
        begun = newest.stat().st_mtime > _seconds(of_kind[-1].time) if of_kind else True
        return newest.name if begun else found.name

    @property
    def gates(self) -> Gates | None:
        """What the pilot found so far."""
        name = self.current("pilot", kinds.PILOT_FINISHED)
        if name is None:
            return None
        folder = self.file("pilot", name)
        state = "".join(stamp(self.file("pilot", name, file)) for file in ("findings.json", "phases.json"))
        return self._kept(folder, state, lambda: gates_from(folder))

    @property
    def pilot_now(self) -> str:
        """The phase that the pilot is in; empty when none goes on."""
        name = self.current("pilot", kinds.PILOT_FINISHED)
        if name is None or self.file("pilot", name, "findings.json").exists():
            return ""
        now = self.document("pilot", name, "phases.json").get("now")
        return now if isinstance(now, str) else ""

    @property
    def corpus(self) -> Corpus | None:
        """The corpus that was built last; None without a manifest."""
        name = self.current("corpus", kinds.CORPUS_BUILT)
        manifest = self.document("corpus", name, "manifest.json") if name else {}
        if name is None or "splits" not in manifest:
            return None
        return Corpus(str(manifest.get("fingerprint", name)), self.file("corpus", name), manifest)

    def rows(self, split: str) -> dict[str, Row]:
        """The rows of train or validation by their ids; empty when they cannot be read or are very many."""
        corpus = self.corpus
        if corpus is None or corpus.counts.get(split, 0) > _MOST_ROWS_KEPT:
            return {}

        def read() -> dict[str, Row]:
            try:
                return {row.id: row for row in corpus.rows(split)}
            except (TestigoError, OSError, ValueError, KeyError):
                return {}

        return self._kept(("rows", split), str(corpus.folder), read, large=True)

    # ---- what changed -----------------------------------------------------------------------------------------

    def signatures(self) -> dict[str, str]:
        """A short text for each part of the workspace, which changes when the part does."""
        ledger = self._ledger_stamp()
        runs = {f"run/{run.id}": self._run_signature(run) for run in self.runs}
        return {
            "ledger": ledger,
            "pilot": self._folder_signature("pilot", ("phases.json", "findings.json")),
            "baseline": self._folder_signature(
                "baseline", ("predictions/progress.json", "predictions/validation.jsonl")
            ),
            "rows": stamp(self.file("comparison.json")) + stamp(self.file("comparison-test.json")),
            "runs": _short(runs.values()),
            "campaign": (stamp(self.workspace.campaign_path) if self.workspace.campaign_path else "-")
            + question_in(self.workspace.root),
            "jobs": self.jobs.state,
            **runs,
        }

    def _run_signature(self, run: Run) -> str:
        """What changes with the run's files; of a run that has long ended they are looked at every few seconds."""
        ended, now = run.state not in ("planned", "running", "interrupted"), time.monotonic()
        looked_at, known = self._settled.get(run.id, (_NEVER, ""))
        if ended and known.startswith(f"{run.state} ") and now - looked_at < _AGAIN_SECONDS:
            return known
        folder = os.path.join(self.workspace.root, *self.folder_of(run.id))
        stamps = [stamp_of(f"{folder}/{name}") for name in RUN_FILES]
        newest_ns = max((int(one.partition(".")[0], 16) for one in stamps if one != "-"), default=0)
        # A run that has just ended is still evaluated.
        is_old = ended and time.time() - newest_ns / 1e9 > _OLD_SECONDS
        signature = " ".join([run.state, *stamps])
        self._settled[run.id] = (now if is_old else _NEVER, signature)
        return signature

    def _folder_signature(self, kind: str, names: tuple[str, ...]) -> str:
        try:
            folders = sorted(path for path in self.file(kind).iterdir() if not path.name.startswith("."))
        except OSError:
            return "-"
        return " ".join(stamp(folder / name) for folder in folders for name in names)

    # ---- inside -----------------------------------------------------------------------------------------------

    def _recorded(self) -> tuple[tuple[Event, ...], tuple[Run, ...]]:
        state = self._ledger_stamp()
        if state == "-":
            return (), ()
        return self._kept("ledger", state, lambda: (self._open().events(), self._open().runs()))

    def _open(self) -> Ledger:
        if self._ledger is None:
            self.file("ledger.sqlite")  # not where it leads out of the workspace
            self._ledger = self.workspace.open_ledger(wait_seconds=5.0)
        return self._ledger

    def _ledger_stamp(self) -> str:
        if self.workspace.ledger_place is not None:
            return self._open().head().digest
        # The head file is written after each event. SQLite's own files also change when the ledger is merely read.
        path = self.file("ledger.sqlite")
        if not path.is_file():
            return "-"
        head = stamp(self.file("ledger.head"))
        return head if head != "-" else stamp(path)

    def _kept(self, key: object, state: str, read: Callable[[], _T], *, large: bool = False) -> _T:
        cache = self._large if large else self._small
        known = cache.pop(key, None)
        if known is None or known[0] != state:
            known = (state, read())
        cache[key] = known
        while large and len(cache) > _LARGE_KEPT:
            del cache[next(iter(cache))]  # the one that was not asked for the longest
        value: _T = known[1]
        return value


def _short(texts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def progress_in(told: Mapping[str, Any]) -> tuple[int, int] | None:
    """Done and all rows of an evaluation that goes on."""
    done, of = told.get("done"), told.get("of")
    return (done, of) if isinstance(done, int) and isinstance(of, int) and of > 0 else None


def pretty(body: Mapping[str, Any], limit: int) -> str:
    """An event's body for a reader, cut where it is very long."""
    text = json.dumps(body, ensure_ascii=False, indent=2)
    return text if len(text) <= limit else f"{text[:limit]}\n… {len(text) - limit:,} characters more"


def _as_it_is(run: Run) -> Run:
    if run.state != "running" or run.process is None or process_is_alive(run.process) is not False:
        return run
    return replace(run, state="interrupted", cause="its process is gone")


def _seconds(time: str) -> float:
    try:
        return datetime.fromisoformat(time).timestamp()
    except ValueError:
        return 0.0
