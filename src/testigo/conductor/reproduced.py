"""An export that a fresh process reproduced: what is written counts only then."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testigo.campaign import PlannedRun
from testigo.conductor.grounds import Grounds
from testigo.dossier import in_fresh_process
from testigo.errors import VerificationFailed
from testigo.model.export_worker import ExportSpec, progress_of
from testigo.training.launchers import local
from testigo.training.start import follow, to_end

N_CONTROL_INPUTS = 4


@contextmanager
def reproduced(
    grounds: Grounds, planned: PlannedRun, weights: Path, folder: Path, *, spec: Path, merged: bool = False
) -> Iterator[Path]:
    """An export of a run, written aside and reproduced; it gets its name when the block ends well.

    So a kill leaves none unproved.

    Parameters
    ----------
    spec
        A file in the run's folder for what the process that writes it is told.

    Raises
    ------
    VerificationFailed
        When a fresh process does not reproduce the control inputs.
    """
    for left in spec.parent.glob(".export.*"):  # of a process that was killed; other folders are not ours to clear
        shutil.rmtree(left, ignore_errors=True)
    aside = folder.with_name(f".{folder.name}.{os.getpid()}")
    try:
        _write(grounds, planned, weights, aside, spec=spec, merged=merged)
        _reproduce(grounds, aside)
        yield aside
        aside.rename(folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _write(grounds: Grounds, planned: PlannedRun, weights: Path, out: Path, *, spec: Path, merged: bool) -> None:
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
    work = follow(
        "testigo.model.export_worker",
        wanted.write(spec),
        progress=progress_of(spec),
        step="merge" if merged else "export",
        reporter=grounds.reporter,
        log=spec.with_name(f"{spec.stem}-log.txt"),
    )
    to_end(work)


def _reproduce(grounds: Grounds, folder: Path) -> None:
    base, trusted = grounds.campaign.model.base, grounds.campaign.model.trust_remote_code
    if base.startswith("path:"):
        base = f"path:{(grounds.campaign.folder / base.removeprefix('path:')).resolve()}"
    answer = in_fresh_process(base, trusted=trusted, reporter=grounds.reporter)(folder)
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
