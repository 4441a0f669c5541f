"""Opening a workspace, and what becomes of the errors of disks and workers."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from silent import Silent

from testigo.errors import FaultOfTestigo, Interrupted, WorkspaceError
from testigo.ledger import kinds

if TYPE_CHECKING:
    from tiny import Tiny

    from testigo.campaign import Campaign


@pytest.fixture
def campaign(tiny: Tiny) -> Campaign:
    return tiny.campaign()


def test_the_workspace_is_recorded_once(campaign: Campaign, tmp_path: Path) -> None:
    from testigo.conductor.opening import opened

    for _ in range(2):
        with opened(campaign, tmp_path / "w", Silent()) as grounds:
            events = grounds.ledger.events()
    assert [event.kind for event in events] == [kinds.WORKSPACE_CREATED]


def test_a_second_opening_at_the_same_time_is_refused(campaign: Campaign, tmp_path: Path) -> None:
    from testigo.conductor.opening import opened

    with opened(campaign, tmp_path / "w", Silent()):
        with pytest.raises(WorkspaceError, match="no other testigo"), opened(campaign, tmp_path / "w", Silent()):
            pass
        assert (tmp_path / "w" / "ledger.sqlite").exists()
    with opened(campaign, tmp_path / "w", Silent()):
        pass


def test_a_worker_that_was_killed_is_an_interruption_which_names_its_phase(campaign: Campaign, tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text("loading\n")
    (tmp_path / "phases.json").write_text(json.dumps({"now": "overfit"}))
    with pytest.raises(Interrupted) as caught:
        _die(campaign, tmp_path, -9, log)
    (problem,) = caught.value.problems
    assert "SIGKILL in the phase overfit" in problem.found
    assert "memory" in problem.action
    assert caught.value.exit_code == 3


def test_a_worker_that_failed_is_our_fault_with_its_last_words(campaign: Campaign, tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text("Traceback (most recent call last):\n  …\nZeroDivisionError: division by zero\n")
    with pytest.raises(FaultOfTestigo, match="ZeroDivisionError: division by zero") as caught:
        _die(campaign, tmp_path, 1, log)
    assert caught.value.exit_code == 70
    assert caught.value.problems[0].where == str(log)


def test_a_worker_that_failed_on_a_full_disk_is_no_fault_of_ours(campaign: Campaign, tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text("Traceback …\nOSError: [Errno 28] No space left on device\n")
    with pytest.raises(WorkspaceError, match="No space left on device"):
        _die(campaign, tmp_path, 1, log)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT])
def test_an_error_of_the_place_is_told_as_such(campaign: Campaign, tmp_path: Path, number: int) -> None:
    from testigo.conductor.opening import opened

    error = OSError(number, "no", str(tmp_path / "here"))
    with pytest.raises(WorkspaceError, match="here"), opened(campaign, tmp_path / "w", Silent()):
        raise error


def test_other_errors_are_not_blamed_on_the_disk(campaign: Campaign, tmp_path: Path) -> None:
    from testigo.conductor.opening import opened

    for error in (FileNotFoundError(errno.ENOENT, "gone", "there"), BrokenPipeError(errno.EPIPE, "pipe")):
        with pytest.raises(type(error)), opened(campaign, tmp_path / "w", Silent()):
            raise error


def _die(campaign: Campaign, folder: Path, exit_code: int, log: Path) -> None:
    from testigo.conductor.opening import opened
    from testigo.training.launchers.local import WorkerDied

    with opened(campaign, folder / "w", Silent()):
        raise WorkerDied(exit_code, log)
