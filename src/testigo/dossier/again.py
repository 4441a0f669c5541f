"""What the events and files of a dossier tell, by the code that wrote it; and what only dossier.json says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path, PurePath
from typing import Any

from testigo.campaign import Campaign
from testigo.campaign.alone import load_alone
from testigo.campaign.registration import changes_between
from testigo.campaign.withdrawn import INVALID, withdrawn_by
from testigo.dossier import missing as absent
from testigo.dossier.beside_files import beside_file, beside_in
from testigo.dossier.comparison_facts import Rows, comparison_of, differences, examples_from, rows_in
from testigo.dossier.corpus_facts import samples_confirmed
from testigo.dossier.files import read_lines, words
from testigo.dossier.gather import adapter_from, drawn_with, ledger_facts, prediction_file
from testigo.dossier.history import amendments, notes, openings, registration, waivers
from testigo.dossier.language import speaking
from testigo.dossier.promise import hypothesis_from, plan_from
from testigo.dossier.record import Comparison, Example, Record, Run
from testigo.dossier.run_facts import as_recorded, mean_scores
from testigo.ledger import Event, kinds
from testigo.ledger import Run as LedgerRun
from testigo.ledger.runs import fold

_OF_A_RUN = (
    "best_update", "best_validation_loss", "supervised_tokens", "examples", "trained_tensors", "trained_parameters",
    "trained_share", "weights_sha256", "findings", "samples", "curve",
)  # fmt: skip
_OF_THE_DATA = ("sources", "cleaning", "duplicates", "splits", "split_rule", "dropped")
_OF_THE_GATES = ("phases", "passed", "not_checked", "platform")


class Found:
    """The events of a dossier by kind, and the campaign that its file says."""

    def __init__(self, folder: Path, events: Sequence[Event]) -> None:
        self.folder, self.events = folder, tuple(events)
        self.of_kind: dict[str, list[Event]] = {}
        for event in events:
            self.of_kind.setdefault(event.kind, []).append(event)
        # A run's name is a folder's: one that would lead elsewhere is no name of ours.
        self.runs = {
            name: run for name, run in fold(events).items() if PurePath(name).name == name and "\\" not in name
        }
        freezes = [event for event in events if event.kind in kinds.FREEZES]
        self.freeze = freezes[-1] if freezes else None
        path = folder / "campaign.yaml"
        frozen = self.freeze.body.get("frozen") if self.freeze else None
        self.frozen: Mapping[str, Any] = frozen if isinstance(frozen, Mapping) else {}
        self.campaign: Campaign | None = None
        if path.is_file() and not path.is_symlink():
            self.campaign = load_alone(path, self.frozen)

    def of(self, kind: str) -> list[Event]:
        """The events of a kind, in their order."""
        return self.of_kind.get(kind, [])


def not_the_registered(found: Found, record: Record) -> Iterable[str]:
    """The campaign file against the freeze that holds: the last one of the ledger."""
    if found.campaign is None:
        if record.plan.text:
            yield "campaign.yaml: missing, and dossier.json has its text"
        return
    if found.freeze is None or found.freeze.body.get("identity") == found.campaign.identity():
        return
    changed = dict(changes_between(found.frozen, found.campaign.canonical()))
    named = [f"{key}: {words(old) or 'unset'} → {words(new) or 'unset'}" for key, (old, new) in changed.items()]
    told = "; ".join(named[:8]) if found.frozen else "its identity is another"
    yield f"campaign.yaml: is not the campaign of event {found.freeze.number} ({found.freeze.kind}): {told}"


def not_as_told(found: Found, record: Record) -> Iterable[str]:
    """Each place of dossier.json that says otherwise than the events and files beside it."""
    again = told_again(found, record)
    for line in differences(_plain(record), _plain(again)):
        yield f"dossier.json: does not follow from the events and files beside it: {line}"
    yield from (f"dossier.json: {line}" for line in _of_the_pilot(found, record))
    for comparison in (record.comparison, record.on_validation):
        run, named = comparison and comparison.statistics.get("run"), comparison and comparison.run
        if run and run != named:
            yield f"dossier.json: comparison.statistics.run: claimed {run!r}, found {named!r}"
        body = _last_compared(found).get(comparison.split) if comparison else None
        if comparison and body and withdrawn_by(comparison.statistics, list(found.runs.values()), body.body.get("run")):
            yield f"dossier.json: has a comparison on {comparison.split}, and a run that it rests on is invalid"
    if not _has_invalid(found):
        for split, event in _without_comparison(found, record):
            yield f"dossier.json: has no comparison on {split}, and event {event.number} tells of one"


def told_again(found: Found, record: Record) -> Record:
    """The record with all that follows from events and files computed again; the rest is as it says."""
    campaign, of = found.campaign, found.of
    plan = plan_from(campaign) if campaign else record.plan
    hypothesis = hypothesis_from(campaign) if campaign else record.hypothesis
    places = [("baseline", found.folder / "predictions/baseline", "predictions/baseline")]
    places += [(run, found.folder / f"predictions/runs/{run}", f"predictions/runs/{run}") for run in found.runs]
    rows = rows_in(places)
    read = {item.file: read_lines(item.path) for item in rows}
    runs = tuple(_run(found, run, record, read, plan.price_per_hour, plan.metrics) for run in found.runs.values())
    comparison, on_validation = (
        one and _comparison(one, found, rows, record, runs) for one in (record.comparison, record.on_validation)
    )
    split = record.comparison.split if record.comparison else "validation"
    baseline = read.get(f"predictions/baseline/{split}.jsonl", [])
    beside = beside_in(places, of(kinds.BASELINE_EVALUATED), of(kinds.RUN_EVALUATED))
    again = replace(
        record,
        plan=plan,
        hypothesis=hypothesis,
        registration=registration(of(kinds.CAMPAIGN_REGISTERED)),
        amendments=amendments(of(kinds.CAMPAIGN_AMENDED), found.events),
        waivers=waivers(of(kinds.GATE_WAIVED), campaign.waive if campaign else {}, record.gates),
        openings=openings(of(kinds.TEST_OPENED)),
        notes=notes(of(kinds.NOTE)),
        data=_data(found, record),
        baseline=mean_scores(baseline, plan.metrics),
        n_baseline=len(baseline),
        runs=runs,
        comparison=comparison,
        on_validation=on_validation,
        examples=_examples(record, comparison, rows),
        predictions=tuple(prediction_file(item) for item in rows),
        beside_files=tuple(beside_file(item) for item in beside),
        adapter=adapter_from(found.folder / "adapter"),
        ledger=ledger_facts(found.events, record.ledger.faults),
    )
    again = replace(again, environment=_environment(again))
    if record.drawn_with != drawn_with():
        return again  # another version may name what is missing in other words
    with speaking("en"):
        return absent.with_missing(again)


def untold(found: Found, record: Record) -> list[str]:
    """The places of dossier.json that no event and no file of the folder tells, as far as anything stands there."""
    names = [f"data.{name}" for name in _OF_THE_DATA if record.data and getattr(record.data, name)]
    names += [f"gates.{name}" for name in _OF_THE_GATES if record.gates and getattr(record.gates, name)]
    if record.gates and record.gates.findings:
        names.append("gates.findings beyond their codes" if _pilot_told(found, record) else "gates.findings")
    names += [f"runs.{name}" for name in _OF_A_RUN if any(getattr(run, name) for run in record.runs)]
    known = {run.id: run for run in found.runs.values()}
    for run in record.runs:
        own = known.get(run.id)
        left_open = [name for name in ("updates", "seconds") if own is not None and not getattr(own, name)]
        names += [f"{run.id}.{name}" for name in left_open if getattr(run, name)]
    if any(one.prompt or one.target for one in record.examples):
        names.append("examples' prompts and targets")
    names += [name for name in ("generations", "times", "environment") if getattr(record, name)]
    if _has_invalid(found):
        names += [f"that the comparison on {split} was withdrawn" for split, _ in _without_comparison(found, record)]
    names += ["ledger.faults"] if record.ledger.faults else []
    return names


def _run(
    found: Found,
    run: LedgerRun,
    record: Record,
    read: Mapping[str, list[dict[str, Any]]],
    price: float | None,
    metrics: Mapping[str, str],
) -> Run:
    own = next((one for one in record.runs if one.id == run.id), _BLANK)
    lines = read.get(f"predictions/runs/{run.id}/validation.jsonl", [])
    invalidated = found.of(kinds.RUN_INVALIDATED)
    return as_recorded(run, own, lines, events=invalidated, price_per_hour=price, metrics=metrics)


def _comparison(
    claimed: Comparison, found: Found, rows: Sequence[Rows], record: Record, runs: Sequence[Run]
) -> Comparison:
    again = comparison_of(
        claimed.statistics,
        claimed.split,
        rows=rows,
        runs=runs,
        compared=found.of(kinds.COMPARED),
        plan=record.plan,
        hypothesis=record.hypothesis,
    )
    # Whether the statistics are found again is looked at on its own.
    return replace(again, recomputed=claimed.recomputed, differences=claimed.differences)


def _data(found: Found, record: Record) -> Any:
    if record.data is None:
        return None
    built = [event.body for event in found.of(kinds.CORPUS_BUILT) if event.body.get("fingerprint")]
    fingerprint = str(built[-1]["fingerprint"]) if built else record.data.fingerprint
    counts = built[-1].get("rows") if built else None
    counts = counts if isinstance(counts, Mapping) else {}
    splits = tuple(replace(split, rows=counts.get(split.name, split.rows)) for split in record.data.splits)
    samples = samples_confirmed(found.of(kinds.SAMPLES_CONFIRMED), found.of(kinds.RUN_STARTED))
    return replace(record.data, fingerprint=fingerprint, splits=splits, samples=samples)


def _examples(record: Record, comparison: Comparison | None, rows: Sequence[Rows]) -> tuple[Example, ...]:
    by_file = {item.file: item.path for item in rows}
    if comparison is None or not {comparison.baseline_file, comparison.tuned_file} <= by_file.keys():
        return ()
    again = examples_from(comparison, by_file[comparison.baseline_file], by_file[comparison.tuned_file], {})
    texts = {one.row: (one.prompt, one.target) for one in record.examples}
    return tuple(
        replace(one, **dict(zip(("prompt", "target"), texts.get(one.row, ("", "")), strict=True))) for one in again
    )


def _environment(record: Record) -> dict[str, str]:
    """Every value of the pilot's platform is there; more may be, from what the runs noted."""
    again = dict(record.environment)
    for name, value in (record.gates.platform if record.gates else {}).items():
        if f" / {value} / " not in f" / {again.get(name, '')} / ":
            again[name] = value
    return again


def _last_compared(found: Found) -> dict[str, Event]:
    return {str(event.body.get("split", "validation")): event for event in found.of(kinds.COMPARED)}


def _without_comparison(found: Found, record: Record) -> list[tuple[str, Event]]:
    known = {one.split for one in (record.comparison, record.on_validation) if one is not None}
    return [(split, event) for split, event in _last_compared(found).items() if split not in known]


def _has_invalid(found: Found) -> bool:
    return any(run.state == INVALID for run in found.runs.values())


def _pilots(found: Found) -> list[Event]:
    """The pilots that ended, without those that the look at the data stopped before they began."""
    return [event for event in found.of(kinds.PILOT_FINISHED) if "phases" not in event.body]


def _pilot_told(found: Found, record: Record) -> bool:
    pilots = _pilots(found)
    return bool(pilots and record.gates and record.gates.finished and "findings" in pilots[-1].body)


def _of_the_pilot(found: Found, record: Record) -> Iterable[str]:
    pilots = _pilots(found)
    if not pilots:
        return
    last = pilots[-1]
    event = f"event {last.number} ({last.kind})"
    if record.gates is None:
        yield f"gates: claimed none, and {event} tells of a pilot"
    elif record.gates.finished:
        if record.gates.ok != last.body.get("ok", record.gates.ok):
            yield f"gates.ok: claimed {record.gates.ok}, found {last.body['ok']} in {event}"
        codes = sorted(finding.code for finding in record.gates.findings)
        found_then = last.body.get("findings", codes)
        if codes != found_then:
            yield f"gates.findings: claimed {words(codes) or 'none'}, found {words(found_then) or 'none'} in {event}"


def _plain(record: Record) -> dict[str, Any]:
    return asdict(record)


_BLANK = Run(
    id="", variant="", seed=0, state="", cause="", updates=None, attempts=0, seconds=None, cost=None, best_update=None,
    best_validation_loss=None, supervised_tokens=None, examples=None, trained_tensors=None, trained_parameters=None,
    trained_share=None, weights_sha256="", invalid_because="", scores={}, n_scored=0, findings=(), samples=(),
    curve=None,
)  # fmt: skip
