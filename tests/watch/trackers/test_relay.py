"""A tracker that is slow, fails or hangs: the training neither waits nor hears of it, and what was dropped is said."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import played
import pytest

from testigo.campaign import Campaign, load
from testigo.campaign.starting import new_campaign
from testigo.errors import MissingExtra
from testigo.ray_cluster import SILENT
from testigo.rules import judge
from testigo.training.launchers.local import environment
from testigo.watch import trackers
from testigo.watch.trackers.delivery import Delivery, tracker_heard_everything
from testigo.watch.trackers.relay import Relay
from testigo.watch.trackers.tracker import Told, TrackedRun, id_of


class Kept:
    """A tracker in memory, which waits for its gate and may fail at an update."""

    def __init__(self, fails_at: int = -1) -> None:
        self.gate = threading.Event()
        self.updates: list[int] = []
        self.ended: bool | None = None
        self._fails_at = fails_at

    def values(self, update: int, values: Mapping[str, float]) -> None:
        self.gate.wait(60)
        if update == self._fails_at:
            raise ConnectionError("the server is gone\nand more words")
        self.updates.append(update)

    def text(self, update: int, name: str, text: str) -> None: ...

    def table(self, update: int, name: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None: ...

    def picture(self, update: int, name: str, png: bytes) -> None: ...

    def files(self, name: str, folder: Path) -> None: ...

    def end(self, *, well: bool) -> None:
        self.ended = well


def relay(tracker: Kept, folder: Path, before: Iterable[dict[str, Any]] = (), most: int = 10) -> Relay:
    run = TrackedRun("id", "control-0-id", "tiny", folder, folder)
    return Relay("kept", lambda _: tracker, run, list(before), most_waiting=most)


def told(relay: Relay, seconds: float = 60.0) -> Told:
    relay.end(well=True, png=b"")
    return relay.wait(time.monotonic() + seconds)


def test_a_slow_tracker_gets_what_its_queue_holds_and_the_rest_is_counted(tmp_path: Path) -> None:
    slow = Kept()
    own = relay(slow, tmp_path, before=[played.line_of(1)], most=10)
    for update in range(2, 40):
        own(played.line_of(update))  # comes back at once: the gate is shut
    slow.gate.set()
    assert told(own) == Told(lines=11, dropped=28)
    assert slow.updates == list(range(1, 12))
    assert slow.ended is True


def test_a_tracker_that_fails_is_left_out_and_what_it_missed_is_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = Kept(fails_at=3)
    own = relay(broken, tmp_path)
    for update in range(1, 6):
        own(played.line_of(update))
    broken.gate.set()
    result = told(own)
    assert result.error == "ConnectionError: the server is gone"
    assert (result.lines, result.dropped) == (2, 3)
    own(played.line_of(6))
    assert own.told.dropped == 4
    assert "the tracker kept was left behind" in capsys.readouterr().err


def test_a_tracker_that_hangs_does_not_hold_up_the_end(tmp_path: Path) -> None:
    hanging = Kept()
    own = relay(hanging, tmp_path)
    for update in range(1, 6):
        own(played.line_of(update))
    result = told(own, seconds=0.2)
    hanging.gate.set()
    assert "still busy" in result.error
    assert (result.lines, result.dropped) == (0, 5)


def test_a_tracker_that_takes_no_line_is_given_up_long_before_its_time_is_over_and_once(tmp_path: Path) -> None:
    hanging, abandoned = Kept(), []
    run = TrackedRun("id", "control-0-id", "tiny", tmp_path, tmp_path)
    lines = [played.line_of(update) for update in range(1, 4)]
    own = Relay("kept", lambda _: hanging, run, lines, abandon=lambda: abandoned.append(1))
    own.end(well=True, png=b"")
    result = own.wait(time.monotonic() + 600, silence_seconds=0.2)
    assert result == Told(lines=0, dropped=3, error="given up: it took nothing for 0.2 s")
    own.wait(time.monotonic())
    hanging.gate.set()
    assert abandoned == [1]


def test_a_run_that_breaks_off_tells_its_trackers_so(tmp_path: Path) -> None:
    heard = Kept()
    heard.gate.set()
    id_of(tmp_path)
    own = relay(heard, tmp_path, before=[played.line_of(1)])
    with pytest.raises(RuntimeError, match="broken off"), trackers.Followers([own], tmp_path):
        raise RuntimeError("broken off")
    assert (heard.updates, heard.ended) == ([1], False)


def test_what_was_dropped_is_a_finding_and_silence_is_none() -> None:
    found = judge([tracker_heard_everything], [Delivery("wandb", lines=90, dropped=10)]).findings
    assert [(one.code, one.severity) for one in found] == [("M131", "warn")]
    assert found[0].observed == "wandb was told of 90 lines, 10 were dropped: it was too slow"
    failed = judge([tracker_heard_everything], [Delivery("mlflow", lines=3, error="ConnectionError: gone")]).findings
    assert failed[0].observed.endswith("0 were dropped: ConnectionError: gone")
    assert judge([tracker_heard_everything], [Delivery("wandb", lines=100)]).findings == ()


def test_a_run_keeps_its_id_and_another_folder_gets_another(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    assert id_of(one) == id_of(one)
    assert id_of(one) != id_of(other)


@pytest.fixture
def campaign(tmp_path: Path) -> Campaign:
    new_campaign(tmp_path / "shop")
    file = tmp_path / "shop" / "campaign.yaml"
    file.write_text(file.read_text(encoding="utf-8") + "\ntrack: [wandb]\n", encoding="utf-8")
    return load(file)


def test_a_library_that_is_missing_is_said_before_anything_is_trained(
    campaign: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    monkeypatch.setattr(trackers, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra) as refused:
        trackers.require(campaign)
    (problem,) = refused.value.problems
    assert problem.action == "pip install 'testigo[wandb]'"
    assert "Weights & Biases" in problem.expected


def test_no_tracker_reports_its_use(tmp_path: Path) -> None:
    assert {"WANDB_ERROR_REPORTING", "MLFLOW_DISABLE_TELEMETRY", "GRADIO_ANALYTICS_ENABLED"} <= set(SILENT)
    code = (
        "import wandb.env, mlflow.telemetry.utils as telemetry\n"
        "print('SAID', wandb.env.error_reporting_enabled(), telemetry.is_telemetry_disabled())"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True
    ).stdout
    assert "SAID False True" in out


@pytest.mark.parametrize("name", ["mlflow", "wandb"])
def test_a_server_that_never_answers_ends_no_run_and_holds_nothing_up(tmp_path: Path, name: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it accepts, and says nothing
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        new_campaign(tmp_path / "shop")
        file = tmp_path / "shop" / "campaign.yaml"
        file.write_text(file.read_text(encoding="utf-8") + f"\ntrack: [{name}]\n", encoding="utf-8")
        code = (
            "import json, sys, played\nfrom pathlib import Path\nfrom testigo.campaign import load\n"
            "from testigo.watch.trackers import follow\n"
            "own = follow(load(sys.argv[1]), Path(sys.argv[2]), run='r', variant='control', seed=0)\n"
            "for update in range(1, 9): own(played.line_of(update))\n"
            "print(json.dumps(own.end(well=True, grace_seconds=5.0)))"
        )
        support = str(Path(played.__file__).parent)
        there = {"MLFLOW_TRACKING_URI": address, "WANDB_BASE_URL": address, "WANDB_API_KEY": "k" * 40}
        ours = {"PYTHONPATH": os.pathsep.join([support, os.environ.get("PYTHONPATH", "")])}
        ended = subprocess.run(
            [sys.executable, "-c", code, str(file), str(tmp_path / "run")], capture_output=True, text=True, timeout=200,
            env={**environment(), **there, **ours},
        )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert "Traceback" not in ended.stderr
    result = json.loads(ended.stdout)[name]
    assert result["dropped"] == 8
    assert "still busy" in result["error"]
