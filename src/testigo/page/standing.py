"""The overview: where the campaign stands, run by run, and what was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from testigo.dossier import units
from testigo.dossier.files import real, whole
from testigo.dossier.gate_facts import finding_from
from testigo.dossier.language import _, counted
from testigo.dossier.retelling import told
from testigo.ledger import Event, Run, campaign_state, kinds
from testigo.ledger.question import OPENING, SAMPLES, question_in
from testigo.page.plan import Remaining, Speed, Work, left_of, remaining, speed_of, work_of
from testigo.page.reading import size_of
from testigo.page.site import Site, progress_in
from testigo.page.steps import Pace, Steps
from testigo.rules import Finding

_SEVERITIES = ("stop", "warn", "note")
_MOST_FINDINGS = 400
_FIRST_RUNS = 100
_SHORT_BYTES = 2_000_000
"""Of a longer journal the end alone is read for a table."""


@dataclass(frozen=True)
class RunRow:
    """One line of the table of runs. Losses are nats per token, the score is a share, times are seconds."""

    id: str
    variant: str
    seed: int
    state: str
    cause: str
    updates: int
    n_updates: int | None
    loss: float | None
    best_validation: float | None
    score: float | None
    seconds: float | None
    left_seconds: float | None
    evaluating: tuple[int, int] | None


@dataclass(frozen=True)
class Found:
    """A finding with where it was made: the pilot (`run` is empty) or an update of a run, which has a `name`."""

    finding: Finding
    run: str
    update: int | None
    waived: bool
    name: str = ""


@dataclass(frozen=True)
class Stage:
    """One step of the campaign. `state` is done, now, part, failed or waiting; `at` is a path of the page."""

    key: str
    name: str
    state: str
    detail: str
    time: str
    at: str


@dataclass(frozen=True)
class Overview:
    """Everything that the first page shows."""

    question: str
    state: str
    now: str
    conclusion: str
    stages: tuple[Stage, ...]
    runs: tuple[RunRow, ...]
    findings: tuple[Found, ...]
    remaining: Remaining
    seconds: float
    cost: float | None
    currency: str
    metric: str
    updates: int
    n_updates: int | None

    @property
    def first_runs(self) -> tuple[RunRow, ...]:
        """Of very many runs those that go on and the latest that began, in their order."""
        return _first_of(self.runs)


def overview(site: Site) -> Overview:
    """Read the workspace as it is now."""
    campaign, works, speed = site.campaign, work_of(site), speed_of(site)
    metric = campaign.hypothesis.improve.metric if campaign else ""
    light = [row_of(site, work, metric, speed, with_files=False) for work in works]
    shown = {row.id for row in _first_of(light)}
    rows = tuple(
        row_of(site, work, metric, speed) if row.id in shown else row for work, row in zip(works, light, strict=True)
    )
    budget = campaign.budget if campaign else None
    price = budget.price_per_hour if budget else None
    seconds = sum(row.seconds or 0.0 for row in rows)
    numbers = [row.n_updates for row in rows]
    return Overview(
        question=(campaign.question or "") if campaign else "",
        state=campaign_state({row.id: row.state for row in rows if row.id}, site.events),
        now=_now(site, rows),
        conclusion=_conclusion(site),
        stages=tuple(_stages(site, rows, metric)),
        runs=rows,
        findings=findings_of(site),
        remaining=remaining([row.left_seconds for row in rows], speed),
        seconds=seconds,
        cost=None if price is None else price * seconds / 3600,
        currency=(budget.currency or "") if budget else "",
        metric=metric,
        updates=sum(row.updates for row in rows),
        n_updates=sum(n for n in numbers if n is not None) if numbers and None not in numbers else None,
    )


def findings_of(site: Site) -> tuple[Found, ...]:
    """All findings of the pilot and of the watch over the runs, the gravest first."""
    waived = dict(site.campaign.waive) if site.campaign else {}
    found = [Found(one, "", None, one.code in waived) for one in site.gates.findings] if site.gates else []
    for run in site.runs:
        name = _("{variant}, seed {seed}", variant=run.variant, seed=run.seed)
        found += [replace(one, name=name) for one in _findings_in_run(site, run.id, waived)]
    found.sort(key=lambda one: (one.waived, _SEVERITIES.index(one.finding.severity)))
    return tuple(found[:_MOST_FINDINGS])


def findings_in_run(site: Site, run: str) -> list[Found]:
    """What the watch found in a run, in order."""
    return _findings_in_run(site, run, dict(site.campaign.waive) if site.campaign else {})


def _findings_in_run(site: Site, run: str, waived: Mapping[str, str]) -> list[Found]:
    lines = site.findings(run)
    found = [(finding_from(line), whole(line.get("update"))) for line in lines]
    return [Found(finding, run, update, finding.code in waived) for finding, update in found]


def run_row(site: Site, run: Run) -> RunRow:
    """The table's line of one run of the ledger."""
    campaign = site.campaign
    work = next(one for one in work_of(site) if one.run is not None and one.run.id == run.id)
    return row_of(site, work, campaign.hypothesis.improve.metric if campaign else "", speed_of(site))


def row_of(site: Site, work: Work, metric: str, speed: Speed, *, with_files: bool = True) -> RunRow:
    """A line of a table of runs. Without files it tells what the ledger knows, for tables of very many."""
    run = work.run
    if run is None:
        left = left_of(work, None, speed, evaluated=False)
        return RunRow("", work.variant, work.seed, "planned", "", 0, work.n_updates,
                      None, None, None, None, left, None)  # fmt: skip
    if not with_files:
        left = left_of(work, None, speed, evaluated=False)
        return RunRow(run.id, run.variant, run.seed, run.state, str(run.cause or ""), run.updates, work.n_updates,
                      None, None, None, run.seconds or None, left, None)  # fmt: skip
    folder, steps = site.folder_of(run.id), _steps_of(site, run)
    result = site.document(*folder, "result.json")
    best, told = steps.best_validation if steps else None, real(result.get("best_validation_loss"))
    scores = site.scores(*folder, "predictions", "validation.jsonl")
    progress = site.document(*folder, "predictions", "progress.json")
    is_live = run.state == "running"
    seconds = run.seconds or None
    if steps and (is_live or not run.seconds):
        seconds = max(steps.seconds, run.seconds) or None
    return RunRow(
        id=run.id,
        variant=run.variant,
        seed=run.seed,
        state=run.state,
        cause=str(run.cause or ""),
        updates=max(run.updates, steps.last_update if steps else 0),
        n_updates=work.n_updates,
        loss=steps.last("loss") if steps else None,
        best_validation=best.loss if best and isinstance(steps, Steps) else _least(best.loss if best else None, told),
        score=scores.get(metric) if scores else None,
        seconds=seconds,
        left_seconds=left_of(work, steps, speed, evaluated=bool(scores)),
        evaluating=progress_in(progress) if progress and not scores else None,
    )


def _steps_of(site: Site, run: Run) -> Steps | Pace | None:
    if not run.attempts:
        return None
    size = size_of(site.file(*site.folder_of(run.id), "steps.jsonl"))
    return site.steps(run.id) if size <= _SHORT_BYTES else site.pace(run.id)


def _least(*values: float | None) -> float | None:
    return min((value for value in values if value is not None), default=None)


def _first_of(rows: Sequence[RunRow]) -> tuple[RunRow, ...]:
    if len(rows) <= _FIRST_RUNS:
        return tuple(rows)
    latest = {row.id for row in [row for row in rows if row.id][-_FIRST_RUNS:]}
    return tuple(row for row in rows if row.state in ("running", "interrupted") or row.id in latest)


def _now(site: Site, rows: Sequence[RunRow]) -> str:
    """What goes on at this moment, in words; empty when nothing tells."""
    asked = question_in(site.workspace.root)
    if asked == SAMPLES:
        return _("It waits for your confirmation of the samples at the terminal of testigo run.")
    if asked == OPENING:
        return _("It waits for your confirmation at the terminal of testigo open-test.")
    for row in rows:
        if row.state == "running":
            run = {"variant": row.variant, "seed": row.seed, "n": units.count(row.updates)}
            if row.n_updates is None:
                return _("Training {variant}, seed {seed}: update {n}.", **run)
            return _("Training {variant}, seed {seed}: update {n} of {all}.", **run, all=units.count(row.n_updates))
        if row.evaluating:
            done, of = map(units.count, row.evaluating)
            words = {"variant": row.variant, "seed": row.seed, "n": done, "all": of}
            return _("Evaluating {variant}, seed {seed}: {n} of {all} rows.", **words)
    pilot = site.pilot_now
    if pilot:
        return _("The pilot goes through its phases: {phase}.", phase=told(pilot))
    baseline = _baseline_progress(site)
    if baseline is None:
        return ""
    return _("Evaluating the base: {n} of {all} rows.", n=units.count(baseline[0]), all=units.count(baseline[1]))


def _baseline_progress(site: Site) -> tuple[int, int] | None:
    name = site.current("baseline", kinds.BASELINE_EVALUATED)
    if name is None or site.file("baseline", name, "predictions", "validation.jsonl").exists():
        return None
    return progress_in(site.document("baseline", name, "predictions", "progress.json"))


def _conclusion(site: Site) -> str:
    for split in ("test", "validation"):
        text = site.comparison(split).get("conclusion")
        if isinstance(text, str) and text:
            return text
    return ""


def _stages(site: Site, rows: Sequence[RunRow], metric: str) -> list[Stage]:
    last = {event.kind: event for event in site.events}
    gates, corpus = site.gates, site.corpus
    ended = sum(row.state not in ("planned", "running", "interrupted") for row in rows)
    baseline = site.current("baseline", kinds.BASELINE_EVALUATED)
    score = site.scores("baseline", baseline, "predictions", "validation.jsonl").get(metric) if baseline else None
    pilot = ""
    if gates is not None:
        pilot = _("{n} phases, {m} findings", n=len(gates.phases), m=len(gates.findings))
    openings = sum(event.kind == kinds.TEST_OPENED for event in site.events)
    counts = ", ".join(f"{units.count(n)} {told(split)}" for split, n in corpus.counts.items()) if corpus else ""
    progress = _baseline_progress(site)
    is_now = any(row.state == "running" or row.evaluating for row in rows)
    runs_state = "now" if is_now else "part" if ended else "waiting"
    runs_state = "done" if rows and ended == len(rows) and not is_now else runs_state
    evaluated = f"{metric} {units.share(score)}" if score is not None else ""
    opened = _("sealed") if not openings else counted("opened", "opened {n} times", openings)
    return [
        _stage("hypothesis", _("Hypothesis registered"), last.get(kinds.CAMPAIGN_REGISTERED), "", "/ledger"),
        _stage("corpus", _("Rows"), last.get(kinds.CORPUS_BUILT), counts, "/data"),
        _stage("baseline", _("Baseline"), last.get(kinds.BASELINE_EVALUATED), evaluated, "/rows",
               now=progress is not None),
        _stage("pilot", _("Pilot"), last.get(kinds.PILOT_FINISHED), pilot, "/gates", now=bool(site.pilot_now),
               failed=gates is not None and gates.finished and not gates.ok),
        Stage("runs", _("Runs"), runs_state,
              _("{n} of {all} ended", n=units.count(ended), all=units.count(len(rows))) if rows else "", "", "/runs"),
        _stage("comparison", _("Comparison"), last.get(kinds.COMPARED), "", "/compare"),
        Stage("test", _("Sealed test"), "done" if openings else "waiting", opened, "", "/ledger"),
        _stage("export", _("Export"), last.get(kinds.EXPORTED), "", "/ledger"),
        _stage("dossier", _("Dossier"), last.get(kinds.DOSSIER_WRITTEN), "", "/ledger"),
    ]  # fmt: skip


def _stage(
    key: str, name: str, event: Event | None, detail: str, at: str, *, now: bool = False, failed: bool = False
) -> Stage:
    state = "now" if now else "failed" if failed else "done" if event else "waiting"
    return Stage(key, name, state, detail, str(event.time) if event else "", at)
