"""A clock that is set back, by a day, between two commands on one campaign."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import whole

from testigo.ledger import kinds

if TYPE_CHECKING:
    from whole import Place

SET_BACK = """
import datetime, time
DAY = 86400.0
real_time, real = time.time, datetime.datetime
time.time = lambda: real_time() - DAY
class SetBack(real):
    @classmethod
    def now(cls, tz=None):
        return real.fromtimestamp(real_time() - DAY, tz)
datetime.datetime = SetBack
"""


def test_a_clock_that_was_set_back_breaks_no_record_and_no_dossier(place: Place, tmp_path: Path) -> None:
    """What happened later stays later by its number; the time is told as the clock told it."""
    (tmp_path / "sitecustomize.py").write_text(SET_BACK)
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    named = [str(place.file), "--workspace", str(place.workspace), "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "testigo", "note", named[0], "the clock was wrong", *named[1:]],
        env={**os.environ, "PYTHONPATH": paths}, text=True, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert whole.testigo("dossier", *named).code == 0
    events = place.events()
    note = next(event for event in events if event.kind == kinds.NOTE)
    assert [event.number for event in events] == [*range(1, len(events) + 1)]
    assert note.time < events[note.number - 2].time
    assert place.testigo("ledger verify", "--json").document == {"ok": True, "events": len(events), "faults": []}
    assert whole.testigo("verify", str(place.workspace / "dossier"), "--no-control", "--json").code == 0
    document = json.loads((place.workspace / "dossier" / "dossier.json").read_text())
    assert not list(_negative_seconds(document))
    assert place.testigo("status", "--json").document["state"] == "completed"


def _negative_seconds(value: object, name: str = "") -> list[str]:
    if isinstance(value, dict):
        return [found for key, item in value.items() for found in _negative_seconds(item, str(key))]
    if isinstance(value, list):
        return [found for item in value for found in _negative_seconds(item, name)]
    return [name] if name.endswith("seconds") and isinstance(value, int | float) and value < 0 else []
