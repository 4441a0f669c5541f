"""What trackers get once a campaign has ended: the exported adapter with its card, and lines that they had missed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from testigo.campaign import PlannedRun, planned_runs
from testigo.conductor.grounds import Grounds
from testigo.disk import file_sha256, write_json
from testigo.errors import Interrupted, TestigoError
from testigo.training.launchers import local
from testigo.training.progress import ENDED_WELL
from testigo.watch.trackers.complete import Completion
from testigo.watch.trackers.relay import GIVEN_UP
from testigo.watch.trackers.tracker import STATE, id_of

_KEEP_FILES = ("wandb", "mlflow", "trackio")
_HOLDS_ROWS = "testigo.json"
"""Of an export: the control inputs, which are rows."""


def trackers(grounds: Grounds) -> None:
    """Tell each tracker of each run what it lacks. None of them can stop the campaign; what fails is said.

    Raises
    ------
    Interrupted
        When somebody asked to stop.
    """
    if not grounds.campaign.track.declared:
        return
    states = {run.id: run.state for run in grounds.ledger.runs()}
    names = list(grounds.campaign.track.declared)
    for planned in planned_runs(grounds.campaign):
        run = grounds.spec(planned).run_id
        if (grounds.workspace.run(run) / "steps.jsonl").exists():
            silent = _complete(grounds, planned, run, names, well=states.get(run) in ENDED_WELL)
            # Who does not answer for one run is not waited for once more for each of the others.
            names = [name for name in names if name not in silent]


def _complete(grounds: Grounds, planned: PlannedRun, run: str, among: Sequence[str], *, well: bool) -> set[str]:
    """Tell the trackers of one run; the names of those that did not answer and were given up."""
    folder = grounds.workspace.run(run)
    id_of(folder)  # a run from before trackers were declared has none yet
    known = json.loads((folder / STATE).read_text(encoding="utf-8"))
    export = folder / "export"
    digest = file_sha256(export / _HOLDS_ROWS) if well and export.exists() else ""
    names = [name for name in among if _lacks(name, known, digest)]
    if not names:
        return set()
    staged = _staged(grounds, folder / ".for-trackers") if digest else {}
    wanted = Completion(
        campaign=planned.campaign.to_json(), campaign_folder=str(grounds.campaign.folder), folder=str(folder), run=run,
        variant=planned.variant, seed=planned.seed, well=well, names=tuple(names), files=staged,
    )  # fmt: skip
    grounds.reporter.say(f"trackers: {', '.join(names)} {'get the adapter' if staged else 'hear what they missed'}")
    try:
        log = folder / "trackers-log.txt"
        local.finish("testigo.watch.trackers.complete", str(wanted.write(folder / "trackers-spec.json")), log=log)
    except Interrupted:
        raise
    except (TestigoError, local.WorkerDied) as error:
        grounds.reporter.say(f"  trackers: {error}")
        return set()
    finally:
        shutil.rmtree(folder / ".for-trackers", ignore_errors=True)
    told = json.loads((folder / STATE).read_text(encoding="utf-8"))
    done = [name for name in names if not told["told"][name]["error"]]
    write_json(folder / STATE, told | {"files": known.get("files", {}) | dict.fromkeys(done, digest)})
    errors = {name: str(told["told"][name]["error"]) for name in names if name not in done}
    for name, why in errors.items():
        grounds.reporter.say(f"  trackers: {name} was left behind: {why}")
    return {name for name, why in errors.items() if why.startswith(GIVEN_UP)}


def _lacks(name: str, known: Mapping[str, Any], digest: str) -> bool:
    told = known["told"].get(name, {"error": "never told"})
    files = bool(digest) and name in _KEEP_FILES and known.get("files", {}).get(name) != digest
    return files or bool(told.get("dropped") or told.get("error"))


def _staged(grounds: Grounds, place: Path) -> dict[str, str]:
    """The adapter without its control inputs, which are rows, and the model card beside it."""
    shutil.rmtree(place, ignore_errors=True)
    dossier = grounds.workspace.dossier
    shutil.copytree(dossier / "adapter", place / "adapter", ignore=shutil.ignore_patterns(_HOLDS_ROWS))
    shutil.copy2(dossier / "MODEL_CARD.md", place / "adapter" / "MODEL_CARD.md")
    return {"adapter": str(place / "adapter")}
