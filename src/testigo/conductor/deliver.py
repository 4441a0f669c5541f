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
from testigo.conductor.merging import holds_something_else, merge, refuse_unmergeable
from testigo.conductor.reproduced import reproduced
from testigo.disk import file_sha256
from testigo.dossier import build_dossier, sums
from testigo.errors import WorkspaceError
from testigo.ledger import kinds


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
    if merged:
        refuse_unmergeable(grounds, out)
    planned, weights = _chosen(grounds)
    run = grounds.workspace.run(grounds.spec(planned).run_id)
    folder = run / "export"
    if not folder.exists():
        with reproduced(grounds, planned, weights, folder, spec=run / "export.json"):
            pass  # what it holds is held against nothing else
    of_dossier = grounds.workspace.dossier / "adapter"
    _copy(folder, of_dossier, aside=grounds.workspace.root / ".adapter", replace=True)
    digest = json.loads((folder / "testigo.json").read_text(encoding="utf-8"))["weights_sha256"]
    body: dict[str, Any] | None = {"weights_sha256": digest, "merged": False}
    if out is not None:
        out = out.resolve()
        if merged:
            body = merge(grounds, planned, weights, folder, out)
        else:
            _copy(folder, out, aside=out.with_name(f".{out.name}.{os.getpid()}"), replace=False)
    if body is not None:
        grounds.record(kinds.EXPORTED, body, run=run.name, about=("merged",))
    return out or of_dossier


def _chosen(grounds: Grounds) -> tuple[PlannedRun, Path]:
    """The first run of the choice that ended well, and its best weights."""
    chosen = chosen_variant(grounds)
    for planned in planned_runs(grounds.campaign):
        if planned.variant == chosen and (weights := grounds.best_weights(planned)) is not None:
            return planned, weights
    is_control = chosen == "control"
    raise WorkspaceError(
        expected=f"a run of the {'control' if is_control else f'variant {chosen}'} that ended well",
        found="none",
        where=str(grounds.workspace.root),
        action=grounds.way_on() if is_control else "testigo run first; testigo status tells how its runs stand",
    )


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


def _copy(folder: Path, place: Path, *, aside: Path, replace: bool) -> None:
    if place.exists():
        kept, new = place / "testigo.json", folder / "testigo.json"
        if kept.exists() and kept.read_bytes() == new.read_bytes():
            return
        if not replace:
            raise holds_something_else(place)
        shutil.rmtree(place)
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(aside, ignore_errors=True)
    try:
        shutil.copytree(folder, aside)
        aside.rename(place)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
