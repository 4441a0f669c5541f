"""What of a dossier nobody can check from the folder alone, by name and with the reason."""

from __future__ import annotations

from collections.abc import Iterable

from testigo.dossier import evidence
from testigo.dossier.again import has_invalid, pilot_told, without_comparison
from testigo.dossier.found import Found
from testigo.dossier.record import Record
from testigo.ledger import kinds

_OF_A_RUN = (
    "best_update", "best_validation_loss", "supervised_tokens", "examples", "trained_tensors", "trained_parameters",
    "trained_share", "weights_sha256", "findings", "samples", "curve",
)  # fmt: skip
_OF_THE_DATA = ("sources", "cleaning", "duplicates", "splits", "split_rule", "dropped")
_OF_THE_GATES = ("phases", "passed", "not_checked", "platform")


def untold(found: Found, record: Record) -> list[str]:
    """The places of dossier.json that no event and no file of the folder tells, as far as anything stands there."""
    names = [] if found.has_evidence else list(_of_no_file(found, record))
    shown = evidence.rows_shown(found.folder)[0]
    if any(one.prompt and one.row not in shown for one in record.examples):
        names.append("examples' prompts and targets")
    names += ["times"] if record.times else []
    if has_invalid(found):
        names += [f"that the comparison on {split} was withdrawn" for split, _ in without_comparison(found, record)]
    names += ["ledger.faults"] if record.ledger.faults else []
    return names


def unrecorded(found: Found, record: Record) -> list[str]:
    """What the dossier was drawn from and no event knows by its digest, and why."""
    if not found.has_evidence:
        drawn = record.data or record.gates or record.runs
        return ["what the dossier was drawn from: it carries none of it, as earlier versions wrote it"] if drawn else []
    by_reason: dict[str, list[str]] = {}
    for place in ("corpus", "pilot", *(f"runs/{name}" for name in found.runs)):
        if place not in found.bound and (found.evidence / place).is_dir():
            by_reason.setdefault(_why_unbound(found, place), []).append(f"{evidence.FOLDER}/{place}")
    lines = [f"{', '.join(places)}: {why}" for why, places in by_reason.items()]
    return lines + evidence.grown(found.folder, found.bound)


def unknown_then(found: Found) -> list[str]:
    """What the campaign file leaves to defaults that the version which registered it did not know."""
    keys = found.set_since
    return [f"in campaign.yaml, what an earlier version registered without: {', '.join(keys)}"] if keys else []


def _of_no_file(found: Found, record: Record) -> Iterable[str]:
    """What an earlier version wrote into dossier.json without the files that it was drawn from."""
    yield from (f"data.{name}" for name in _OF_THE_DATA if record.data and getattr(record.data, name))
    yield from (f"gates.{name}" for name in _OF_THE_GATES if record.gates and getattr(record.gates, name))
    if record.gates and record.gates.findings:
        yield "gates.findings beyond their codes" if pilot_told(found, record) else "gates.findings"
    yield from (f"runs.{name}" for name in _OF_A_RUN if any(getattr(run, name) for run in record.runs))
    for run in record.runs:
        own = found.runs.get(run.id)
        left_open = [name for name in ("updates", "seconds") if own is not None and not getattr(own, name)]
        yield from (f"{run.id}.{name}" for name in left_open if getattr(run, name))
    yield from (name for name in ("generations", "environment") if getattr(record, name))


def _why_unbound(found: Found, place: str) -> str:
    run = found.runs.get(place.removeprefix("runs/"))
    if run is not None and run.state == "running":
        return "the run goes on, and its end records the digests"
    pilots = found.of(kinds.PILOT_FINISHED) + found.of(kinds.PILOT_REPEATED)
    last = max(pilots, key=lambda event: event.number, default=None)
    if place == "pilot" and (last is None or last.kind == kinds.PILOT_REPEATED or "phases" in last.body):
        return "no event tells that this pilot ended"
    return "their events are of an earlier version, which recorded no digests"
