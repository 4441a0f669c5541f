"""The overview: where the campaign stands, run by run, and what was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from testigo.dossier.files import real, whole
from testigo.dossier.gate_facts import finding_from
from testigo.ledger import Event, Run, campaign_state, kinds
from testigo.page.plan import Remaining, Speed, Work, left_of, remaining, speed_of, work_of
from testigo.page.site import Site, progress_in
from testigo.rules import Finding

_SEVERITIES = ("stop", "warn", "note")
_MOST_FINDINGS = 400
_FEW = 50
"""Of so many runs all steps are read for the overview; of more, only those of runs that go on."""
_FIRST_RUNS = 100


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
    """A finding with where it was made: the pilot (`run` is empty) or an update of a run."""

    finding: Finding
    run: str
    update: int | None
    waived: bool


@dataclass(frozen=True)
class Stage:
    """One step of the campaign. `state` is done, now, part, failed or waiting; `at` is a path of the page."""

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
        if len(self.runs) <= _FIRST_RUNS:
            return self.runs
        latest = {row.id for row in [row for row in self.runs if row.id][-_FIRST_RUNS:]}
        return tuple(row for row in self.runs if row.state in ("running", "interrupted") or row.id in latest)


def overview(site: Site) -> Overview:
    """Read the workspace as it is now."""
    campaign, works, speed = site.campaign, work_of(site), speed_of(site)
    metric = campaign.hypothesis.improve.metric if campaign else ""
    few = len(works) <= _FEW
    rows = tuple(_row(site, work, metric, speed, with_steps=few or _is_open(work)) for work in works)
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
        found += _findings_in_run(site, run.id, waived)
    found.sort(key=lambda one: (one.waived, _SEVERITIES.index(one.finding.severity)))
    return tuple(found[:_MOST_FINDINGS])


def findings_in_run(site: Site, run: str) -> list[Found]:
    """What the watch found in a run, in order."""
    return _findings_in_run(site, run, dict(site.campaign.waive) if site.campaign else {})


def _findings_in_run(site: Site, run: str, waived: Mapping[str, str]) -> list[Found]:
    lines = site.small_lines(*site.folder_of(run), "findings.jsonl")
    found = [(finding_from(line), whole(line.get("update"))) for line in lines]
    return [Found(finding, run, update, finding.code in waived) for finding, update in found]


def run_row(site: Site, run: Run) -> RunRow:
    """The table's line of one run of the ledger."""
    campaign = site.campaign
    work = next(one for one in work_of(site) if one.run is not None and one.run.id == run.id)
    return _row(site, work, campaign.hypothesis.improve.metric if campaign else "", speed_of(site), with_steps=True)


def _row(site: Site, work: Work, metric: str, speed: Speed, *, with_steps: bool) -> RunRow:
    run = work.run
    if run is None:
        left = left_of(work, None, speed, evaluated=False)
        return RunRow("", work.variant, work.seed, "planned", "", 0, work.n_updates,
                      None, None, None, None, left, None)  # fmt: skip
    folder, steps = site.folder_of(run.id), site.steps(run.id) if with_steps and run.attempts else None
    result = site.document(*folder, "result.json")
    best = steps.best_validation if steps else None
    scores = site.scores(*folder, "predictions", "validation.jsonl")
    told = site.document(*folder, "predictions", "progress.json")
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
        best_validation=best.loss if best else real(result.get("best_validation_loss")),
        score=scores.get(metric) if scores else None,
        seconds=seconds,
        left_seconds=left_of(work, steps, speed, evaluated=bool(scores)),
        evaluating=progress_in(told) if told and not scores else None,
    )


def _is_open(work: Work) -> bool:
    return work.run is not None and work.run.state in ("running", "interrupted")


def _now(site: Site, rows: Sequence[RunRow]) -> str:
    """What goes on at this moment, in words; empty when nothing tells."""
    for row in rows:
        if row.state == "running":
            of = "" if row.n_updates is None else f" of {row.n_updates:,}"
            return f"Training {row.variant}, seed {row.seed}: update {row.updates:,}{of}."
        if row.evaluating:
            return f"Evaluating {row.variant}, seed {row.seed}: {row.evaluating[0]} of {row.evaluating[1]} rows."
    pilot = site.pilot_now
    if pilot:
        return f"The pilot goes through its phases: {pilot}."
    baseline = _baseline_progress(site)
    return f"Evaluating the base: {baseline[0]} of {baseline[1]} rows." if baseline else ""


def _baseline_progress(site: Site) -> tuple[int, int] | None:
    name = site.current("baseline", kinds.BASELINE_EVALUATED)
    if name is None or site.file("baseline", name, "predictions", "validation.jsonl").exists():
        return None
    return progress_in(site.document("baseline", name, "predictions", "progress.json"))


def _conclusion(site: Site) -> str:
    for name in ("comparison-test.json", "comparison.json"):
        text = site.document(name).get("conclusion")
        if isinstance(text, str) and text:
            return text
    return ""


def _stages(site: Site, rows: Sequence[RunRow], metric: str) -> list[Stage]:
    last = {event.kind: event for event in site.events}
    gates, corpus = site.gates, site.corpus
    ended = sum(row.state not in ("planned", "running", "interrupted") for row in rows)
    baseline = site.current("baseline", kinds.BASELINE_EVALUATED)
    score = site.scores("baseline", baseline, "predictions", "validation.jsonl").get(metric) if baseline else None
    pilot = "" if gates is None else f"{len(gates.phases)} phases, {len(gates.findings)} findings"
    openings = sum(event.kind == kinds.TEST_OPENED for event in site.events)
    counts = ", ".join(f"{n:,} {split}" for split, n in corpus.counts.items()) if corpus else ""
    progress = _baseline_progress(site)
    is_now = any(row.state == "running" or row.evaluating for row in rows)
    runs_state = "now" if is_now else "part" if ended else "waiting"
    runs_state = "done" if rows and ended == len(rows) and not is_now else runs_state
    evaluated = f"{metric} {100 * score:.1f} %" if score is not None else ""
    return [
        _stage("Hypothesis registered", last.get(kinds.CAMPAIGN_REGISTERED), "", "/ledger"),
        _stage("Rows", last.get(kinds.CORPUS_BUILT), counts, "/ledger"),
        _stage("Baseline", last.get(kinds.BASELINE_EVALUATED), evaluated, "/rows", now=progress is not None),
        _stage("Pilot", last.get(kinds.PILOT_FINISHED), pilot, "/gates", now=bool(site.pilot_now),
               failed=gates is not None and gates.finished and not gates.ok),
        Stage("Runs", runs_state, f"{ended} of {len(rows)} ended" if rows else "", "", "#runs"),
        _stage("Comparison", last.get(kinds.COMPARED), "", "/rows"),
        Stage("Sealed test", "done" if openings else "waiting",
              f"opened {openings} times" if openings > 1 else "opened" if openings else "sealed", "", "/ledger"),
        _stage("Export", last.get(kinds.EXPORTED), "", "/ledger"),
        _stage("Dossier", last.get(kinds.DOSSIER_WRITTEN), "", "/ledger"),
    ]  # fmt: skip


def _stage(name: str, event: Event | None, detail: str, at: str, *, now: bool = False, failed: bool = False) -> Stage:
    state = "now" if now else "failed" if failed else "done" if event else "waiting"
    return Stage(name, state, detail, str(event.time) if event else "", at)
