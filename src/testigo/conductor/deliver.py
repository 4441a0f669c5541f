"""What leaves the workspace: the adapter, proved in a fresh process, and the dossier."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from testigo.campaign import PlannedRun, planned_runs
from testigo.conductor.grounds import Grounds
from testigo.conductor.judge import chosen_variant
from testigo.disk import file_sha256
from testigo.dossier import build_dossier, in_fresh_process, sums
from testigo.errors import VerificationFailed, WorkspaceError
from testigo.ledger import kinds
from testigo.model.export_worker import ExportSpec
from testigo.training.launchers import local

N_CONTROL_INPUTS = 4


def export(grounds: Grounds, out: Path | None = None) -> Path:
    """The adapter or model of the choice (the control, unless a variant was chosen), bound to its base.

    A fresh process reproduces it; the dossier gets a copy.

    Raises
    ------
    WorkspaceError
        When no run of the choice ended well, or when `out` holds something else.
    VerificationFailed
        When a fresh process does not reproduce the control inputs.
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
            action="run testigo run first; testigo status tells how its runs stand",
        )
    folder = grounds.workspace.run(grounds.spec(planned).run_id) / "export"
    if not folder.exists():
        _make(grounds, planned, weights, folder)
    _copy(folder, grounds.workspace.dossier / "adapter", aside=grounds.workspace.root / ".adapter", replace=True)
    if out is not None:
        out = out.resolve()
        _copy(folder, out, aside=out.with_name(f".{out.name}.{os.getpid()}"), replace=False)
    digest = json.loads((folder / "testigo.json").read_text(encoding="utf-8"))["weights_sha256"]
    grounds.record(kinds.EXPORTED, {"weights_sha256": digest}, run=folder.parent.name)
    return out or grounds.workspace.dossier / "adapter"


def _make(grounds: Grounds, planned: PlannedRun, weights: Path, folder: Path) -> None:
    """Write the export aside; it gets its name once a fresh process reproduced it: a kill leaves none unproved."""
    spec = grounds.spec(planned)
    for left in folder.parent.glob(".export.*"):
        shutil.rmtree(left, ignore_errors=True)
    aside = folder.with_name(f".export.{os.getpid()}")
    wanted = ExportSpec(
        campaign=spec.campaign,
        campaign_folder=spec.campaign_folder,
        corpus=spec.corpus,
        base_digest=spec.base_digest,
        weights=str(weights.resolve()),
        seed=planned.seed,
        control_rows=tuple(sorted(row.id for row in grounds.corpus.rows("validation"))[:N_CONTROL_INPUTS]),
        out=str(aside.resolve()),
    )
    grounds.reporter.say("export: the adapter and its control inputs")
    path = wanted.write(folder.with_name("export.json"))
    local.finish("testigo.model.export_worker", str(path), log=folder.with_name("export-log.txt"))
    try:
        _prove(grounds, aside)
        aside.rename(folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


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
            raise WorkspaceError(
                expected="a new folder",
                found="one that holds something else",
                where=str(place),
                action="name another folder with --out; an old adapter is never overwritten",
            )
        shutil.rmtree(place)
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(aside, ignore_errors=True)
    try:
        shutil.copytree(folder, aside)
        aside.rename(place)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
