"""What leaves the workspace: the adapter, proved in a fresh process, and the dossier."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from testigo.campaign import PlannedRun, planned_runs
from testigo.conductor.grounds import Grounds
from testigo.conductor.judge import chosen_variant
from testigo.disk import file_sha256
from testigo.dossier import build_dossier, in_fresh_process, sums
from testigo.errors import VerificationFailed, WorkspaceError
from testigo.gates.measured import tolerance
from testigo.ledger import kinds
from testigo.model.export_worker import ExportSpec
from testigo.training.launchers import local

N_CONTROL_INPUTS = 4
MERGED_APART = 1e-4
"""The most that merged and unmerged logits may differ in fp32, relative to their size, as in X108."""


def export(grounds: Grounds, out: Path | None = None, *, merged: bool = False) -> Path:
    """The adapter or model of the choice (the control, unless a variant was chosen), bound to its base.

    A fresh process reproduces it; the dossier gets a copy.

    Parameters
    ----------
    merged
        Whether `out` gets the base with the adapter merged into its weights: a whole model.

    Raises
    ------
    WorkspaceError
        When no run of the choice ended well, when `out` holds something else, or when there is nothing to merge.
    VerificationFailed
        When a fresh process does not reproduce the control inputs, or the merged model gives other logits.
    """
    chosen = chosen_variant(grounds)
    for planned in planned_runs(grounds.campaign):
        weights = grounds.best_weights(planned)
        if planned.variant == chosen and weights is not None:
            break
    else:
        raise WorkspaceError(
            expected=f"a run of the {'control' if chosen == 'control' else f'variant {chosen}'} that ended well",
            found="none",
            where=str(grounds.workspace.root),
            action=grounds.way_on()
            if chosen == "control"
            else "testigo run first; testigo status tells how its runs stand",
        )
    folder = grounds.workspace.run(grounds.spec(planned).run_id) / "export"
    if not folder.exists():
        _make(grounds, planned, weights, folder)
    _copy(folder, grounds.workspace.dossier / "adapter", aside=grounds.workspace.root / ".adapter", replace=True)
    if out is not None:
        out = out.resolve()
    if merged:
        return _merged(grounds, planned, weights, folder, out)
    if out is not None:
        _copy(folder, out, aside=out.with_name(f".{out.name}.{os.getpid()}"), replace=False)
    digest = json.loads((folder / "testigo.json").read_text(encoding="utf-8"))["weights_sha256"]
    body = {"weights_sha256": digest, "merged": False}
    grounds.record(kinds.EXPORTED, body, run=folder.parent.name, about=("merged",))
    return out or grounds.workspace.dossier / "adapter"


def _make(grounds: Grounds, planned: PlannedRun, weights: Path, folder: Path) -> None:
    """Write the export aside; it gets its name once a fresh process reproduced it: a kill leaves none unproved."""
    for left in folder.parent.glob(".export.*"):
        shutil.rmtree(left, ignore_errors=True)
    aside = folder.with_name(f".export.{os.getpid()}")
    grounds.reporter.say("export: the adapter and its control inputs")
    try:
        _write(grounds, planned, weights, aside, spec=folder.with_name("export.json"))
        _prove(grounds, aside)
        aside.rename(folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _merged(grounds: Grounds, planned: PlannedRun, weights: Path, adapter: Path, out: Path | None) -> Path:
    """The base with a proved adapter in its weights, held against the two apart, and read by a fresh process."""
    from testigo.model.export import read_record

    of_adapter = read_record(adapter)
    if out is None or of_adapter["kind"] != "adapter":
        raise WorkspaceError(
            expected="an adapter to merge, and a folder for the whole model",
            found="no --out" if out is None else "a model that was trained whole",
            where=str(grounds.campaign.path),
            action="add --out DIR" if out is None else "export it without --merged: it is whole already",
        )
    digest = of_adapter["weights_sha256"]
    if out.exists():
        if read_record(out).get("merged_adapter_sha256") == digest:
            return out
        raise _holds_something_else(out)
    aside = out.with_name(f".{out.name}.{os.getpid()}")
    grounds.reporter.say("export: the adapter is merged into its base")
    try:
        _write(grounds, planned, weights, aside, spec=adapter.with_name("merged.json"), merged=True)
        _prove(grounds, aside)
        told = _compared(grounds, of_adapter, read_record(aside))
        aside.rename(out)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    body = {"weights_sha256": digest, "merged": True, **told}
    grounds.record(kinds.EXPORTED, body, run=adapter.parent.name, about=("merged",))
    return out


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
    limit = tolerance(MERGED_APART, grounds.campaign.model.precision)
    if "quantised" not in adapter and found.first_logits_error > limit:
        raise VerificationFailed(
            expected=f"logits of the merged model within {limit:.1e} of the adapter's",
            found=f"{found.first_logits_error:.1e}, and {found.outputs_equal} of {found.control_rows} outputs equal",
            where="the control inputs",
            action="hand over the adapter unmerged, or train with precision: fp32",
        )
    return {
        "merged_weights_sha256": whole["weights_sha256"],
        "merged_outputs_equal": found.outputs_equal,
        "merged_logits_apart": found.first_logits_error,
    }


def _write(
    grounds: Grounds, planned: PlannedRun, weights: Path, out: Path, *, spec: Path, merged: bool = False
) -> None:
    run = grounds.spec(planned)
    wanted = ExportSpec(
        campaign=run.campaign,
        campaign_folder=run.campaign_folder,
        corpus=run.corpus,
        base_digest=run.base_digest,
        weights=str(weights.resolve()),
        seed=planned.seed,
        control_rows=tuple(sorted(row.id for row in grounds.corpus.rows("validation"))[:N_CONTROL_INPUTS]),
        out=str(out.resolve()),
        merged=merged,
    )
    log = spec.with_name(f"{spec.stem}-log.txt")
    local.finish("testigo.model.export_worker", str(wanted.write(spec)), log=log)


def dossier(grounds: Grounds) -> Path:
    """The report that others can verify; written again only when something happened since."""
    folder = grounds.workspace.dossier
    if _is_current(grounds, folder):
        grounds.reporter.say("dossier: nothing has happened since it was written")
    else:
        build_dossier(grounds.workspace, grounds.campaign, grounds.ledger)
        grounds.ledger.append(kinds.DOSSIER_WRITTEN, {"sha256sums": file_sha256(folder / sums.NAME)})
        grounds.reporter.say("dossier: written")
    return folder


def _is_current(grounds: Grounds, folder: Path) -> bool:
    last = grounds.ledger.events()[-1]
    kept = [folder / "campaign.yaml", folder / sums.NAME]
    if last.kind != kinds.DOSSIER_WRITTEN or not all(path.is_file() for path in kept):
        return False
    same_text = kept[0].read_bytes() == grounds.campaign.path.read_bytes()
    return same_text and last.body["sha256sums"] == file_sha256(kept[1]) and not sums.check_sums(folder)[1]


def _prove(grounds: Grounds, folder: Path) -> None:
    base = grounds.campaign.model.base
    if base.startswith("path:"):
        base = f"path:{(grounds.campaign.folder / base.removeprefix('path:')).resolve()}"
    answer = in_fresh_process(base, trusted=grounds.campaign.model.trust_remote_code)(folder)
    if "ended_by" in answer:
        raise local.interrupted(answer["ended_by"], folder)
    if not answer.get("ok"):
        raise VerificationFailed(
            expected="the control inputs reproduced by a fresh process",
            found="; ".join(map(str, answer.get("faults", ()))) or "no answer",
            where=str(folder),
            action="report this with the export's log; the trained weights are safe in the run's checkpoint",
        )
    grounds.reporter.say(f"export: {answer['outputs_equal']} of {answer['control_rows']} control inputs reproduced")


def _copy(folder: Path, place: Path, *, aside: Path, replace: bool) -> None:
    if place.exists():
        kept, new = place / "testigo.json", folder / "testigo.json"
        if kept.exists() and kept.read_bytes() == new.read_bytes():
            return
        if not replace:
            raise _holds_something_else(place)
        shutil.rmtree(place)
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(aside, ignore_errors=True)
    try:
        shutil.copytree(folder, aside)
        aside.rename(place)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _holds_something_else(place: Path) -> WorkspaceError:
    return WorkspaceError(
        expected="a new folder",
        found="one that holds something else",
        where=str(place),
        action="name another folder with --out; an old export is never overwritten",
    )
