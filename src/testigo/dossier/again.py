"""What the events and files of a dossier tell, by the code that wrote it, against what dossier.json says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, replace
from typing import Any

from testigo.campaign.registration import changes_since
from testigo.campaign.withdrawn import INVALID, superseded_by, withdrawn_by
from testigo.dossier import evidence
from testigo.dossier import missing as absent
from testigo.dossier.beside_files import beside_file, beside_in
from testigo.dossier.comparison_facts import Rows, comparison_of, differences, examples_from, rows_in, shortened
from testigo.dossier.corpus_facts import data_from, samples_confirmed
from testigo.dossier.files import read_json, read_lines, words
from testigo.dossier.found import Found
from testigo.dossier.gate_facts import gates_from
from testigo.dossier.gather import adapter_from, drawn_with, environment_of, ledger_facts, prediction_file
from testigo.dossier.generations import generations_from
from testigo.dossier.history import amendments, notes, openings, registration, waivers
from testigo.dossier.language import speaking
from testigo.dossier.promise import hypothesis_from, plan_from
from testigo.dossier.record import Comparison, Data, Example, Generation, Plan, Record, Run
from testigo.dossier.run_facts import as_recorded, mean_scores, own_from
from testigo.dossier.versions import Told
from testigo.ledger import Event, kinds
from testigo.ledger import Run as LedgerRun


def not_the_registered(found: Found, record: Record) -> Iterable[str]:
    """The campaign file against the freeze that holds: the last one of the ledger."""
    if found.campaign is None:
        if record.plan.text:
            yield "campaign.yaml: missing, and dossier.json has its text"
        return
    if found.freeze is None:
        return
    since = found.set_since
    changed = {key: both for key, both in changes_since(found.freeze.body, found.campaign).items() if key not in since}
    if (since or found.freeze.body.get("identity") == found.campaign.identity()) and not changed:
        return
    named = [f"{key}: {words(old) or 'unset'} → {words(new) or 'unset'}" for key, (old, new) in changed.items()]
    told = "; ".join(named[:8]) if found.frozen else "its identity is another"
    yield f"campaign.yaml: is not the campaign of event {found.freeze.number} ({found.freeze.kind}): {told}"


def not_as_told(found: Found, told: Told) -> Iterable[str]:
    """Each place of dossier.json that says otherwise than the events and files beside it.

    What an earlier version did not record can say nothing.
    """
    record, lacking = told.record, told.lacking
    again = told_again(found, record, is_of_another_version=told.is_of_another_version)
    for line in differences(_plain(record), _plain(again)):
        if not any(line.startswith((f"{place}:", f"{place}.", f"{place}[")) for place in lacking):
            yield f"dossier.json: does not follow from the events and files beside it: {line}"
    if "gates" not in lacking:
        yield from (f"dossier.json: {line}" for line in _of_the_pilot(found, record))
    for comparison in (record.comparison, record.on_validation):
        run, named = comparison and comparison.statistics.get("run"), comparison and comparison.run
        if run and run != named:
            yield f"dossier.json: comparison.statistics.run: claimed {run!r}, found {named!r}"
        body = _last_compared(found).get(comparison.split) if comparison else None
        if comparison and body and withdrawn_by(comparison.statistics, list(found.runs.values()), body.body.get("run")):
            yield f"dossier.json: has a comparison on {comparison.split}, and a run that it rests on is invalid"
        if comparison and (amended := superseded_by(comparison.split, found.events)):
            yield (
                f"dossier.json: has a comparison on {comparison.split}, "
                f"and event {amended.number} amended what it was judged by"
            )
    if not has_invalid(found) and not {"comparison", "on_validation"} & {*lacking}:
        for split, event in without_comparison(found, record):
            yield f"dossier.json: has no comparison on {split}, and event {event.number} tells of one"


def told_again(found: Found, record: Record, *, is_of_another_version: bool = False) -> Record:
    """The record with all that follows from events and files computed again; the rest is as it says."""
    campaign, of = found.campaign, found.of
    plan = plan_from(campaign) if campaign else record.plan
    if plan.identity != record.plan.identity:
        plan = _without(plan, found)
    hypothesis = hypothesis_from(campaign) if campaign else record.hypothesis
    places = [("baseline", found.folder / "predictions/baseline", "predictions/baseline")]
    places += [(run, found.folder / f"predictions/runs/{run}", f"predictions/runs/{run}") for run in found.runs]
    rows = rows_in(places)
    read = {item.file: read_lines(item.path) for item in rows}
    runs = tuple(_run(found, run, record, read, plan, hypothesis.metric) for run in found.runs.values())
    comparison, on_validation = (
        one and _comparison(one, found, rows, record, runs) for one in (record.comparison, record.on_validation)
    )
    split = record.comparison.split if record.comparison else "validation"
    baseline = read.get(f"predictions/baseline/{split}.jsonl", [])
    beside = beside_in(places, of(kinds.BASELINE_EVALUATED), of(kinds.RUN_EVALUATED))
    gates = gates_from(found.evidence / "pilot") if found.has_evidence else record.gates
    again = replace(
        record,
        plan=plan,
        hypothesis=hypothesis,
        registration=registration(of(kinds.CAMPAIGN_REGISTERED)),
        amendments=amendments(of(kinds.CAMPAIGN_AMENDED), found.events),
        waivers=waivers(of(kinds.GATE_WAIVED), campaign.waive if campaign else {}, gates),
        openings=openings(of(kinds.TEST_OPENED)),
        notes=notes(of(kinds.NOTE)),
        data=_data(found, record),
        baseline=mean_scores(baseline, plan.metrics),
        n_baseline=len(baseline),
        gates=gates,
        runs=runs,
        comparison=comparison,
        on_validation=on_validation,
        examples=_examples(found, record, comparison, rows),
        generations=_generations(found, record, comparison, hypothesis.metric),
        predictions=tuple(prediction_file(item) for item in rows),
        beside_files=tuple(beside_file(item) for item in beside),
        adapter=adapter_from(found.folder / "adapter"),
        ledger=ledger_facts(found.events, record.ledger.faults),
    )
    again = replace(again, environment=_environment(found, again, rows))
    if record.drawn_with != drawn_with() or is_of_another_version:
        return again  # another version may name what is missing in other words
    with speaking("en"):
        return absent.with_missing(again)


def _without(plan: Plan, found: Found) -> Plan:
    """The plan as the version wrote it that registered the campaign: without the settings that it did not know."""
    if not found.set_since or found.freeze is None:
        return plan
    settings: dict[str, Any] = deepcopy(plan.settings)
    for key in found.set_since:
        *sections, last = key.split(".")
        part: Any = settings
        for name in sections:
            part = part.get(name, {})
        part.pop(last, None)
    return replace(plan, settings=settings, identity=str(found.freeze.body.get("identity", "")))


def _run(
    found: Found,
    run: LedgerRun,
    record: Record,
    read: Mapping[str, list[dict[str, Any]]],
    plan: Plan,
    metric: str,
) -> Run:
    if found.has_evidence:
        own = own_from(run, found.evidence / "runs" / run.id, metric)
    else:
        own = next((one for one in record.runs if one.id == run.id), _BLANK)
    lines = read.get(f"predictions/runs/{run.id}/validation.jsonl", [])
    invalidated = found.of(kinds.RUN_INVALIDATED)
    return as_recorded(run, own, lines, events=invalidated, price_per_hour=plan.price_per_hour, metrics=plan.metrics)


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


def _data(found: Found, record: Record) -> Data | None:
    samples = samples_confirmed(found.of(kinds.SAMPLES_CONFIRMED), found.of(kinds.RUN_STARTED))
    data = record.data
    if found.has_evidence:
        manifest = read_json(found.evidence / "corpus" / evidence.MANIFEST)
        data = data_from(manifest, samples) if manifest else None
    if data is None:
        return None
    built = [event.body for event in found.of(kinds.CORPUS_BUILT) if event.body.get("fingerprint")]
    fingerprint = str(built[-1]["fingerprint"]) if built else data.fingerprint
    counts = built[-1].get("rows") if built else None
    counts = counts if isinstance(counts, Mapping) else {}
    splits = tuple(replace(split, rows=counts.get(split.name, split.rows)) for split in data.splits)
    return replace(data, fingerprint=fingerprint, splits=splits, samples=samples)


def _examples(found: Found, record: Record, comparison: Comparison | None, rows: Sequence[Rows]) -> tuple[Example, ...]:
    by_file = {item.file: item.path for item in rows}
    if comparison is None or not {comparison.baseline_file, comparison.tuned_file} <= by_file.keys():
        return ()
    before = by_file[comparison.baseline_file]
    texts = {one.row: (one.prompt, one.target) for one in record.examples}
    shown = evidence.rows_shown(found.folder)[0]
    field = found.campaign.task.input if found.campaign else None
    for line in read_lines(before) if field else ():
        row = str(line.get("row"))
        if row in shown and texts.get(row, ("", ""))[0]:
            target = shortened(str(line.get("target") or ""))
            texts[row] = (shortened(words(shown[row].get(str(field)))), target or texts[row][1])
    again = examples_from(comparison, before, by_file[comparison.tuned_file], {})
    return tuple(
        replace(one, **dict(zip(("prompt", "target"), texts.get(one.row, ("", "")), strict=True))) for one in again
    )


def _generations(found: Found, record: Record, comparison: Comparison | None, metric: str) -> tuple[Generation, ...]:
    if not found.has_evidence:
        return record.generations
    # A run's name is a folder's only where the ledger knows it.
    is_known = comparison is not None and comparison.run in found.runs
    return generations_from(found.evidence / "runs" / comparison.run, metric) if comparison and is_known else ()


def _environment(found: Found, record: Record, rows: Sequence[Rows]) -> dict[str, str]:
    """Of the evidence; where a dossier carries none, every value of the pilot's platform is there, and more may be."""
    if found.has_evidence:
        return environment_of(found.evidence, record.runs, rows, record.gates.platform if record.gates else {})
    again = dict(record.environment)
    for name, value in (record.gates.platform if record.gates else {}).items():
        if f" / {value} / " not in f" / {again.get(name, '')} / ":
            again[name] = value
    return again


def _last_compared(found: Found) -> dict[str, Event]:
    return {str(event.body.get("split", "validation")): event for event in found.of(kinds.COMPARED)}


def without_comparison(found: Found, record: Record) -> list[tuple[str, Event]]:
    """Splits on which the ledger tells of a comparison that still holds, and the record has none."""
    known = {one.split for one in (record.comparison, record.on_validation) if one is not None}
    return [
        (split, event)
        for split, event in _last_compared(found).items()
        if split not in known and not superseded_by(split, found.events)
    ]


def has_invalid(found: Found) -> bool:
    """Whether a run was declared invalid."""
    return any(run.state == INVALID for run in found.runs.values())


def _pilots(found: Found) -> list[Event]:
    """The pilots that ended, without those that the look at the data stopped before they began."""
    return [event for event in found.of(kinds.PILOT_FINISHED) if "phases" not in event.body]


def pilot_told(found: Found, record: Record) -> bool:
    """Whether an event tells the codes of what the pilot found."""
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
