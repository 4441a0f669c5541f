"""A disk that is full, or that cannot be written: told as such; what was recorded is safe, and the campaign goes on."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from silent import Silent

from testigo.ledger import kinds

if TYPE_CHECKING:
    from whole import Answer, Finished, Place

Mount = Callable[[int], Path | None]


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    """A small disk of so many bytes in memory; None where this user may not mount one."""
    places: list[Path] = []

    def make(n_bytes: int) -> Path | None:
        place = tmp_path / f"disk{len(places)}"
        place.mkdir()
        made = _mount("-t", "tmpfs", "-o", f"size={n_bytes}", "tmpfs", place)
        places.extend([place] if made else [])
        return place if made else None

    yield make
    for place in places:
        subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_disk_that_is_full_from_the_start_is_told(tmp_path: Path, mount: Mount) -> None:
    import whole

    place = whole.make(tmp_path / "fresh")
    disk = mount(64 << 10)
    if disk is None:  # files of a limited size stand for a limited disk
        answer = _limited(place, 4 << 10)
    else:
        answer = whole.testigo("run", str(place.file), "--workspace", str(disk / "w"), "--json")
    assert answer.code == 2, answer
    assert "Traceback" not in answer.err
    assert answer.problem["action"]


def test_a_disk_that_fills_up_while_training_interrupts_the_run_which_then_goes_on_bit_for_bit(
    finished: Finished, tmp_path: Path, mount: Mount
) -> None:
    disk = mount(4 << 20)
    if disk is None:
        place = finished.piloted.copy(tmp_path / "limited")
        full = _limited(place, 40 << 10)
    else:
        place = finished.piloted.copy(disk / "copy")
        free = shutil.disk_usage(disk).free
        (disk / "filler").write_bytes(b"x" * (free - (250 << 10)))
        full = place.testigo("run", "--json")
    assert full.code == 2, full
    assert "Traceback" not in full.err
    assert any(word in full.problem["found"] for word in ("No space", "space left", "full", "too large")), full.problem
    (disk or tmp_path).joinpath("filler").unlink(missing_ok=True)
    assert place.testigo("ledger verify", "--json").document["ok"] is True
    _train(place)
    results = [json.loads((p.only_run / "result.json").read_text()) for p in (place, finished.place)]
    assert results[0]["final_weights_sha256"] == results[1]["final_weights_sha256"]
    assert [line["update"] for line in place.steps(place.only_run)] == [*range(1, 31)]
    states = [event.body["state"] for event in place.events(kinds.RUN_ENDED)]
    assert states == ["interrupted", "completed"]


def test_a_workspace_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    import whole

    place = whole.make(tmp_path / "fresh")
    for folder in ("/proc/testigo", "/sys/testigo"):  # nobody may write there, root neither
        answer = whole.testigo("run", str(place.file), "--workspace", folder, "--json")
        assert (answer.code, answer.problem["where"]) == (2, folder)


def test_a_workspace_that_can_only_be_read_is_read_and_not_run(place: Place, mount: Mount) -> None:
    before = place.events()
    disk = mount(8 << 20)
    if disk is not None:
        frozen = place.copy(disk / "copy")
        assert _mount("-o", "remount,ro", disk)
    elif os.geteuid() != 0:
        frozen = place
        for path in [place.workspace, *place.workspace.rglob("*")]:
            path.chmod(0o555 if path.is_dir() else 0o444)
    else:  # root without mounts: nothing is read-only to it
        return
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


def _mount(*arguments: str | Path) -> bool:
    if os.geteuid() != 0 or shutil.which("mount") is None:
        return False
    return subprocess.run(["mount", *map(str, arguments)], check=False, capture_output=True).returncode == 0


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
