"""A disk that is full, or that cannot be written: told as such; what was recorded is safe, and the campaign goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
from silent import Silent

from testigo.ledger import kinds
from testigo.room import AGAIN

if TYPE_CHECKING:
    from small_disk import Disk
    from whole import Answer, Finished, Place

PATIENCE_SECONDS = 300
WAITS = "waits: the disk is full"


class Running:
    """A campaign that goes on in processes of its own, and what it says meanwhile."""

    def __init__(self, place: Place, log: Path) -> None:
        self._log = log
        with log.open("w") as said:
            self.process = place.start("run", "--json", "--yes", stderr=said)

    @property
    def said(self) -> str:
        return self._log.read_text()

    def hears(self, words: str) -> None:
        """Wait until it says so."""
        until = time.monotonic() + PATIENCE_SECONDS
        while words not in self.said and self.process.poll() is None:
            assert time.monotonic() < until, self.said
            time.sleep(0.02)
        assert words in self.said, (self.process.returncode, self.said)

    def ends(self) -> int:
        self.process.communicate(timeout=PATIENCE_SECONDS)
        assert "Traceback" not in self.said
        return self.process.returncode


def test_a_full_disk_holds_a_campaign_until_there_is_room_and_it_ends_bit_for_bit(
    finished: Finished, tmp_path: Path, mount: Callable[[int], Disk]
) -> None:
    disk = mount(16 << 20)
    place = finished.piloted.copy(disk.path / "copy")
    one = sum(path.stat().st_size for path in _newest(finished.place.only_run).iterdir())
    filler = disk.fill(but=3 * (one + (64 << 10)))  # the run keeps two and the best, and writes another beside them
    running = Running(place, tmp_path / "said")
    running.hears(WAITS)
    run = place.only_run
    assert "are needed, in" in running.said, "the forecast says how much, before the first update"
    assert not (run / "steps.jsonl").exists() or not place.steps(run)
    (told,) = place.testigo("status", "--json").document["runs"]
    assert told["state"] == "running"
    assert told["cause"].startswith(WAITS)
    filler.unlink()
    running.hears(AGAIN)
    until(lambda: len(place.steps(run)) >= 4, running)
    filler = disk.fill(but=0)
    until(lambda: running.said.count(WAITS) >= 2, running)
    filler.unlink()
    assert running.ends() == 0, running.said
    import whole

    assert whole.weights(place) == whole.weights(finished.place)
    assert [line["update"] for line in place.steps(run)] == [*range(1, 31)]
    assert place.testigo("ledger verify", "--json").document["ok"] is True
    assert [event.body["state"] for event in place.events(kinds.RUN_ENDED)] == ["completed"], "one attempt was enough"


def test_a_campaign_that_waits_for_room_ends_as_interrupted_by_a_signal(
    finished: Finished, tmp_path: Path, mount: Callable[[int], Disk]
) -> None:
    disk = mount(16 << 20)
    place = finished.piloted.copy(disk.path / "copy")
    running = Running(place, tmp_path / "said")
    until(lambda: bool(list(place.workspace.glob("runs/*/checkpoints/000003"))), running)
    filler = disk.fill(but=0)
    running.hears(WAITS)
    kept = sorted(path.name for path in (place.only_run / "checkpoints").iterdir() if path.name.isdigit())
    began = time.monotonic()
    running.process.send_signal(signal.SIGTERM)
    assert running.ends() == 3, running.said
    assert time.monotonic() - began < 30  # the promise
    assert not _workers(place)
    still = sorted(path.name for path in (place.only_run / "checkpoints").iterdir() if path.name.isdigit())
    assert still == kept, "the last good checkpoint stays"
    filler.unlink()
    assert place.testigo("ledger verify", "--json").document["ok"] is True
    _train(place)
    results = [json.loads((p.only_run / "result.json").read_text()) for p in (place, finished.place)]
    assert results[0]["final_weights_sha256"] == results[1]["final_weights_sha256"]
    states = [event.body["state"] for event in place.events(kinds.RUN_ENDED)]
    assert states == ["interrupted", "completed"]


def test_a_disk_that_is_full_from_the_start_waits_too(tmp_path: Path, mount: Callable[[int], Disk]) -> None:
    import whole

    place = whole.make(tmp_path / "fresh")
    disk = mount(64 << 10)
    (place.folder / "tiny.testigo").symlink_to(disk.path)
    running = Running(place, tmp_path / "said")
    running.hears(WAITS)
    running.process.send_signal(signal.SIGINT)
    assert running.ends() == 3, running.said


def test_a_file_that_may_not_become_larger_is_an_error_in_words(tmp_path: Path) -> None:
    """No space that somebody frees would help here, so that nothing waits."""
    import whole

    place = whole.make(tmp_path / "fresh")
    answer = _limited(place, 4 << 10)
    assert answer.code == 2, answer
    assert "Traceback" not in answer.err
    assert answer.problem["action"]


def test_a_workspace_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    import whole

    place = whole.make(tmp_path / "fresh")
    for folder in ("/proc/testigo", "/sys/testigo"):  # nobody may write there, root neither
        answer = whole.testigo("run", str(place.file), "--workspace", folder, "--json")
        assert (answer.code, answer.problem["where"]) == (2, folder)


def test_a_workspace_that_can_only_be_read_is_read_and_not_run(place: Place, mount: Callable[[int], Disk]) -> None:
    before = place.events()
    disk = mount(8 << 20)
    frozen = place.copy(disk.path / "copy")
    disk.freeze()
    refused = frozen.testigo("run", "--json")
    assert refused.code == 2, refused
    assert "Traceback" not in refused.err
    assert frozen.testigo("status", "--json").document["state"] == "completed"
    assert frozen.testigo("compare", "--json").code == 0
    assert frozen.testigo("ledger verify", "--json").document["ok"] is True
    assert frozen.events() == before


def _train(place: Place) -> None:
    """Go on with the run alone: what comes after it is tested elsewhere."""
    from testigo.campaign import load, planned_runs
    from testigo.conductor import train
    from testigo.conductor.opening import opened
    from testigo.training.start import to_end

    campaign = load(place.file)
    with opened(campaign, place.workspace, Silent()) as grounds:
        grounds.ledger.mark_dead(progress=grounds.progress_of)
        to_end(train.train(grounds, planned_runs(campaign)[0]))


def until(condition: Callable[[], bool], running: Running) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert running.process.poll() is None, running.said
        assert time.monotonic() < end, running.said
        time.sleep(0.005)


def _newest(run: Path) -> Path:
    return max(path for path in (run / "checkpoints").iterdir() if path.name.isdigit())


def _workers(place: Place) -> list[psutil.Process]:
    named = str(place.workspace)
    return [p for p in psutil.process_iter() if named in " ".join(_command_of(p)) and p.pid != os.getpid()]


def _command_of(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def _limited(place: Place, n_bytes: int) -> Answer:
    """A run no file of which may become larger."""
    from whole import Answer

    process = subprocess.Popen(
        ["bash", "-c", f'ulimit -f {n_bytes >> 10}; trap "" XFSZ; exec "$@"', "-", *_command(place)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    out, err = process.communicate()
    return Answer(process.returncode, out, err)


def _command(place: Place) -> list[str]:
    import sys

    return [sys.executable, "-m", "testigo", "run", str(place.file), "--workspace", str(place.workspace), "--json"]
