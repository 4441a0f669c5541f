"""A campaign's workspace, opened by one process at a time; what disk and workers say is told as a user's error."""

from __future__ import annotations

import errno
import fcntl
import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TypeVar

from testigo.campaign import Campaign, Workspace
from testigo.conductor.grounds import Grounds
from testigo.errors import DiskFull, FaultOfTestigo, Interrupted, TestigoError, WorkspaceError
from testigo.ledger import kinds
from testigo.room import AGAIN, FULL_WORDS, LITTLE_BYTES, Shortage, free_bytes, is_full, patient, when_there_is_room
from testigo.training.launchers.local import WorkerDied
from testigo.training.start import Reporter

# Errors of the place rather than of the program: full, over quota, read-only, not permitted, broken.
_OF_THE_PLACE = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.EFBIG}
_REFUSED_WORDS = ("Read-only file system", "File too large")
T = TypeVar("T")
_LAST_WORDS_BYTES = 1 << 16


@contextmanager
def opened(
    campaign: Campaign, given: Path | None, reporter: Reporter, *, ledger: str | None = None, alone: bool = True
) -> Iterator[Grounds]:
    """The grounds of a campaign in its workspace, which is made when it is new.

    Parameters
    ----------
    alone
        Whether another process in the same workspace is refused. Who only looks can do so while a run goes on.

    Raises
    ------
    WorkspaceError
        When another process is at work in the workspace, when it belongs to another campaign, or cannot be written.
    Interrupted
        When a worker was killed.
    FaultOfTestigo
        When a worker failed by an error of ours.
    """
    place = Workspace.for_campaign(campaign, given, ledger)

    def tell(shortage: Shortage | None) -> None:
        reporter.say(shortage.words if shortage else AGAIN)

    with (
        patient(tell) if alone else nullcontext(),
        _told(place.root),
        _made(place, campaign, alone),
        place.open_ledger(create=True) as record,
    ):
        if not record.events(kind=kinds.WORKSPACE_CREATED):
            record.append(kinds.WORKSPACE_CREATED, {"campaign": campaign.name, "identity": campaign.identity()})
        yield Grounds(campaign, place, record, reporter)


@contextmanager
def _made(place: Workspace, campaign: Campaign, alone: bool) -> Iterator[None]:
    when_there_is_room(lambda: place.create(campaign), place.root.parent)
    with at_rest(place.root) if alone else nullcontext():
        yield


def carried_on(grounds: Grounds, work: Callable[[], T]) -> T:
    """Do what goes on where it stopped; while the disk is full it waits, whichever of its processes found that out."""

    def is_for_room(error: Exception) -> bool:
        return _is_full_worker(error) if isinstance(error, WorkerDied) else is_full(error)

    return when_there_is_room(work, grounds.workspace.root, is_full=is_for_room)


def _is_full_worker(died: WorkerDied) -> bool:
    words = _last_words(died.log)
    return died.exit_code > 0 and (
        any(full in words for full in FULL_WORDS) or free_bytes(died.log.parent) < LITTLE_BYTES
    )


@contextmanager
def at_rest(
    root: Path, *, otherwise: str = "wait until it has ended; testigo status tells how far it is"
) -> Iterator[None]:
    """While nothing else works in the workspace; `otherwise` is what to do when something does.

    Raises
    ------
    WorkspaceError
        When another process is at work in it.
    """
    with (root / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise WorkspaceError(
                expected="no other testigo at work in this workspace",
                found="one that is",
                where=str(root),
                action=otherwise,
            ) from None
        yield


@contextmanager
def _told(root: Path) -> Iterator[None]:
    try:
        yield
    except WorkerDied as died:
        raise _of_worker(died, root) from died
    except OSError as error:
        if error.errno not in _OF_THE_PLACE:
            raise
        where = Path(str(error.filename or root))
        raise _of_place(error.strerror or str(error), where, full=is_full(error)) from error


def _of_place(found: str, where: Path, *, full: bool = False) -> WorkspaceError:
    return (DiskFull if full else WorkspaceError)(
        expected="room and permission to write",
        found=found,
        where=str(where),
        action="free space or make the folder writable, then run the same command again; what was recorded is safe",
    )


def _of_worker(died: WorkerDied, root: Path) -> TestigoError:
    words = _last_words(died.log)
    refused = next((text for text in (*FULL_WORDS, *_REFUSED_WORDS) if text in words), "")
    if died.exit_code > 0 and (refused or _is_full_worker(died)):
        found = refused or f"{free_bytes(root)} bytes left on the disk"
        return _of_place(found, died.log.parent, full=refused not in _REFUSED_WORDS)
    if died.exit_code > 0:
        return FaultOfTestigo(
            expected="a worker that ends well",
            found=words.strip().splitlines()[-1] if words.strip() else f"exit code {died.exit_code} without a word",
            where=str(died.log),
            action="report it with this log; what was recorded is safe, and the same command goes on from there",
        )
    killed = f"it was ended by {signal.Signals(-died.exit_code).name}{_phase(died.log.parent)}"
    memory = "; if it is ended there again, memory ran out: testigo size tells what is needed"
    return Interrupted(
        expected="a worker that goes on to its end",
        found=killed,
        where=str(died.log),
        action="run the same command again to go on" + (memory if -died.exit_code == signal.SIGKILL else ""),
    )


def _last_words(log: Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - _LAST_WORDS_BYTES))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def _phase(folder: Path) -> str:
    """The pilot's phase in which its worker was, when it was one."""
    try:
        now = json.loads((folder / "phases.json").read_text(encoding="utf-8"))["now"]
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return f" in the phase {now}" if now else ""
