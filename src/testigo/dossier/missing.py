"""What a dossier should hold and does not, with the reason in words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from testigo.dossier.language import _, speaking
from testigo.dossier.record import Missing, Record, Run
from testigo.dossier.retelling import told

FINISHED = ("completed", "stopped-early")


def with_missing(record: Record) -> Record:
    """The record with its missing parts named."""
    return replace(record, missing=tuple(_absent(record)))


def missing_told(record: Record) -> tuple[Missing, ...]:
    """The record's missing parts in the language that is spoken, where they follow from the record as it says."""
    with speaking("en"):
        same = tuple(_absent(record)) == record.missing
    return tuple(_absent(record)) if same else record.missing


def _absent(record: Record) -> Iterable[Missing]:
    if record.registration is None:
        why = _("the hypothesis was never frozen in the ledger, so it could have been changed after results were seen")
        yield Missing(_("registration"), why)
    if record.data is None:
        yield Missing(_("data"), _("no corpus was built"))
    if not record.n_baseline:
        yield Missing(_("baseline"), _because(record, _("the unadapted model was not evaluated")))
    if record.gates is None:
        yield Missing(_("pilot"), _("no pilot was run, so no gate was checked"))
    elif not record.gates.finished:
        yield Missing(_("pilot"), _("it did not finish, so its gates were not judged"))
    if not record.runs:
        yield Missing(_("runs"), _because(record, _("no run was planned")))
    elif not any(run.state in FINISHED for run in record.runs):
        yield Missing(_("finished run"), _("no run finished: {states}", states=_states(record)))
    if record.comparison is None:
        yield Missing(_("comparison"), _no_comparison(record))
    elif record.comparison.recomputed is None:
        why = _("the predictions behind the comparison are not all here, so its numbers cannot be found again")
        yield Missing(_("recomputation"), why)
    if record.adapter is None:
        has_invalid = any(run.state == "invalid" for run in record.runs)
        why = _("no adapter of a valid run was exported") if has_invalid else _("no adapter was exported")
        yield Missing(_("adapter"), _because(record, why))
    if not record.plan.text:
        yield Missing(_("campaign file"), _("it could not be read when this report was written"))


def stopped_by(record: Record) -> list[str]:
    """The codes of the stop-rules that no waiver covers."""
    waived = {waiver.code for waiver in record.waivers}
    findings = record.gates.findings if record.gates else ()
    return sorted({f.code for f in findings if f.severity == "stop" and f.code not in waived})


def _gates_stopped(record: Record) -> str:
    codes = ", ".join(stopped_by(record))
    return _("the pilot's gates stopped the campaign ({codes})", codes=codes) if codes else ""


def _because(record: Record, what: str) -> str:
    stopped = _gates_stopped(record)
    return _("{what}: {stopped}", what=what, stopped=stopped) if stopped else what


def _states(record: Record) -> str:
    return _states_of(record.runs)


def _states_of(runs: Iterable[Run]) -> str:
    return _("; ").join(f"{run.id} {told(run.state)}" + (f" ({told(run.cause)})" if run.cause else "") for run in runs)


def _no_comparison(record: Record) -> str:
    if stopped := _gates_stopped(record):
        return stopped
    if not record.n_baseline:
        return _("there is no baseline to compare with")
    if not record.runs:
        return _("no run was made")
    finished = [run for run in record.runs if run.state in FINISHED]
    control, invalid = (
        [r for r in record.runs if r.variant == "control"],
        [r for r in record.runs if r.state == "invalid"],
    )
    lacks_control = not any(run.state in FINISHED for run in control)
    if lacks_control and control and (finished or any(run in invalid for run in control)):
        return _("no valid run of the control is there: {states}", states=_states_of(control))
    if not finished:
        return _("no run finished: {states}", states=_states(record))
    if not any(run.n_scored for run in finished):
        return _("the finished runs were not evaluated")
    if invalid:
        return _("the valid runs were evaluated but not compared; `testigo run` goes on with it")
    if record.amendments and "comparison" in record.amendments[-1].known:
        return _("the campaign was amended after its last comparison; `testigo run` compares by what holds now")
    return _("the runs were evaluated but not compared; `testigo run` goes on with it")
