"""The whole model: the base with a proved adapter merged into its weights, held against the two apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from testigo.campaign import PlannedRun
from testigo.conductor.grounds import Grounds
from testigo.conductor.reproduced import reproduced
from testigo.errors import VerificationFailed, WorkspaceError
from testigo.gates.export import ExportEvidence, merged_is_unmerged
from testigo.rules import judge


def refuse_unmergeable(grounds: Grounds, out: Path | None) -> None:
    """Say before anything is made that there is no adapter to merge, or no folder for the whole model.

    Raises
    ------
    WorkspaceError
        When the model was trained whole, or when `out` is None.
    """
    is_whole = grounds.campaign.model.adapter.method == "full"
    if is_whole or out is None:
        raise WorkspaceError(
            expected="an adapter to merge, and a folder for the whole model",
            found="a model that was trained whole" if is_whole else "no --out",
            where=str(grounds.campaign.path),
            action="export it without --merged: it is whole already" if is_whole else "add --out DIR",
        )


def merge(grounds: Grounds, planned: PlannedRun, weights: Path, adapter: Path, out: Path) -> dict[str, Any] | None:
    """Write the whole model to `out`. Returns what the ledger keeps of it; None where this very one is there.

    Raises
    ------
    WorkspaceError
        When `out` holds something else.
    VerificationFailed
        When a fresh process does not reproduce the control inputs, or the merged model gives other logits (X108).
    """
    from testigo.model.export import read_record

    of_adapter = read_record(adapter)
    digest = of_adapter["weights_sha256"]
    if out.exists():
        if read_record(out).get("merged_adapter_sha256") == digest:
            return None
        raise holds_something_else(out)
    with reproduced(grounds, planned, weights, out, spec=adapter.with_name("merged.json"), merged=True) as aside:
        told = _compared(grounds, of_adapter, read_record(aside))
    return {"weights_sha256": digest, "merged": True, **told}


def _compared(grounds: Grounds, adapter: dict[str, Any], whole: dict[str, Any]) -> dict[str, Any]:
    """How far the merged model is from the adapter beside its base: what the ledger keeps.

    An adapter of a quantised base was trained beside other numbers than those that it is merged into: what differs is
    told, and held to no limit.
    """
    from testigo.model.reproduction import ControlInput, compared

    both = [[ControlInput.from_json(plain) for plain in record["control_inputs"]] for record in (adapter, whole)]
    found = compared(*both)
    grounds.reporter.say(
        f"export: {found.outputs_equal} of {found.control_rows} outputs are those of the adapter beside its base; "
        f"logits at most {found.first_logits_error:.1e} apart (relative)"
    )
    campaign = grounds.campaign
    evidence = ExportEvidence(precision=campaign.model.precision, merged_error=found.first_logits_error)
    verdict = judge([merged_is_unmerged], [evidence], limits=campaign.rules.limits, waivers=campaign.waive)
    if "quantised" not in adapter and verdict.stops:
        (finding,) = verdict.stops
        raise VerificationFailed(
            expected=f"{finding.code} {finding.name} to pass: {merged_is_unmerged.summary}",
            found=f"{finding.observed}, and {found.outputs_equal} of {found.control_rows} outputs are equal",
            where="the control inputs",
            action=finding.remedy,
        )
    return {
        "merged_weights_sha256": whole["weights_sha256"],
        "merged_outputs_equal": found.outputs_equal,
        "merged_logits_apart": found.first_logits_error,
    }


def holds_something_else(place: Path) -> WorkspaceError:
    """The error of a folder that is no place for an export."""
    return WorkspaceError(
        expected="a new folder",
        found="one that holds something else",
        where=str(place),
        action="name another folder with --out; an old export is never overwritten",
    )
