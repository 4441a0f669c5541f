"""A campaign of processes that start cold, as a user's do, is killed, and goes on with a clock set back by a day."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import kills
import whole

from testigo.ledger import kinds

if TYPE_CHECKING:
    from whole import Finished, Place

DAY_SECONDS = 86400
SET_BACK = f"""
import time
real, real_ns = time.time, time.time_ns
time.time = lambda: real() - {DAY_SECONDS}
time.time_ns = lambda: real_ns() - {DAY_SECONDS} * 10**9
"""
"""What every process of Python runs before anything else: the clock that all rooms read is a day behind."""


def test_a_killed_campaign_goes_on_bit_for_bit_with_a_clock_that_was_set_back(
    finished: Finished, tmp_path: Path
) -> None:
    """What happened later stays later by its number; the time is told as the clock told it."""
    place = finished.piloted.copy(tmp_path / "copy")
    began = place.start("run", "--json", "--yes", stderr=subprocess.DEVNULL)
    killed = kills.kill_once(began.pid, place.workspace, [kills.Kill("training 4", 0.0, "all")])
    began.communicate()
    assert killed
    assert began.returncode == -signal.SIGKILL
    before = place.events()
    for command in (["run", "--yes"], ["note", str(place.file), "the clock was wrong"], ["dossier"]):
        told = a_day_before(place, *command, folder=tmp_path)
        assert told.returncode == 0, told.stderr
    events = place.events()
    assert [event.number for event in events] == [*range(1, len(events) + 1)]
    assert events[len(before)].time < events[0].time, "all that came later is told as earlier than the beginning"
    started = [event for event in events if event.kind == kinds.RUN_STARTED]
    assert len(started) == 2
    assert started[1].time < started[0].time
    assert whole.weights(place) == whole.weights(finished.place)
    assert [line["update"] for line in place.steps(place.only_run)] == [*range(1, 31)]
    assert place.testigo("ledger verify", "--json").document == {"ok": True, "events": len(events), "faults": []}
    assert whole.testigo("verify", str(place.workspace / "dossier"), "--no-control", "--json").code == 0
    document = json.loads((place.workspace / "dossier" / "dossier.json").read_text())
    assert not _negative_seconds(document)
    assert place.testigo("status", "--json").document["state"] == "completed"


def a_day_before(place: Place, command: str, *options: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A command, and all that it starts, whose clock is a day behind."""
    (folder / "sitecustomize.py").write_text(SET_BACK)
    paths = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    named = options if command == "note" else (str(place.file), *options)
    return subprocess.run(
        [sys.executable, "-m", "testigo", command, *named, "--workspace", str(place.workspace), "--json"],
        env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}, text=True, capture_output=True, check=False,
    )  # fmt: skip


def _negative_seconds(value: object, name: str = "") -> list[str]:
    if isinstance(value, dict):
        return [found for key, item in value.items() for found in _negative_seconds(item, str(key))]
    if isinstance(value, list):
        return [found for item in value for found in _negative_seconds(item, name)]
    return [name] if name.endswith("seconds") and isinstance(value, int | float) and value < 0 else []
