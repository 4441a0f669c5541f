"""One whole campaign, run once for all tests here, by whichever of pytest's processes comes first."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from whole import Finished, Place

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """Read only: a test that changes it copies it. Up to its end the sealed test rows were garbage to whoever looks."""
    import sealing
    import torch
    import whole

    torch.set_num_threads(1)
    os.environ.update(ONE_THREAD)  # for the workers: sums in one order, and no threads that spin
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folder, piloted, kept = shared / "finished", shared / "piloted", shared / "answers.json"
    with (shared / "finished.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            place = whole.make(folder)
            assert place.testigo("check", "--json").code == 0
            seal = sealing.sealed(place.workspace)
            content, answers = sealing.garble(seal), {}
            for command in ("baseline", "pilot", "run"):
                answer = place.testigo(command, "--json")
                assert answer.code == 0, answer.err
                answers[command] = {"document": answer.document, "err": answer.err, "read": sealing.was_read(seal)}
                if command == "pilot":
                    copied = place.copy(piloted)
                    sealing.restore(sealing.sealed(copied.workspace), content)
                    sealing.mark_unread(seal)
            sealing.restore(seal, content)
            kept.write_text(json.dumps(answers))
    return whole.Finished(whole.Place(folder), whole.Place(piloted), json.loads(kept.read_text()))


@pytest.fixture
def place(finished: Finished, tmp_path: Path) -> Place:
    """A copy of the finished campaign, to be changed."""
    return finished.place.copy(tmp_path / "copy")
