"""One whole campaign, run once for all tests here, by whichever of pytest's processes comes first."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from whole import Finished, Place

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
SUPPORT = Path(__file__).resolve().parents[1] / "support"


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """Read only: a test that changes it copies it. Its processes had no network but loopback, and secrets in reach."""
    import planted
    import torch
    import whole

    torch.set_num_threads(1)
    os.environ.update(ONE_THREAD)  # for the workers: sums in one order, and no threads that spin
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    kept = shared / "answers.json"
    with (shared / "finished.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            ours = os.environ.get("PYTHONPATH", "")
            watched = {
                "PYTHONPATH": os.pathsep.join(filter(None, [str(SUPPORT / "watched"), str(SUPPORT), ours])),
                "TESTIGO_TEST_CONNECTIONS": str(shared / "connections.jsonl"),
            }
            command = [sys.executable, str(SUPPORT / "quiet_campaign.py"), str(shared)]
            done = subprocess.run(command, env={**os.environ, **planted.ENVIRONMENT, **watched}, text=True, check=False,
                                  stdin=subprocess.DEVNULL, capture_output=True)  # fmt: skip
            assert done.returncode == 0, done.stdout + done.stderr
    return whole.Finished(whole.Place(shared / "finished"), whole.Place(shared / "piloted"), shared,
                          **json.loads(kept.read_text()))  # fmt: skip


@pytest.fixture
def place(finished: Finished, tmp_path: Path) -> Place:
    """A copy of the finished campaign, to be changed."""
    return finished.place.copy(tmp_path / "copy")
