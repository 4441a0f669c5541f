"""Room on the disk: work that finds none waits until somebody makes some, says so, and goes on by itself.

Nothing waits unless whoever started this process asked for it with `patient`: a library's caller, and a test, get the
error at once.
"""

from __future__ import annotations

import contextlib
import errno
import json
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from testigo.errors import DiskFull, TestigoError

T = TypeVar("T")

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
FULL_WORDS = ("No space left on device", "Disk quota exceeded", "database or disk is full")
LITTLE_BYTES = 64 << 10
"""Less than this is no room for anything: a line, an event of the ledger and its log need about so much."""
_LOOK_EVERY_SECONDS = 0.5
# Free bytes do not tell a quota, so that work is tried again now and then although no byte more seems to be free.
_TRY_EVERY_SECONDS = 30.0
_NOTICE_BYTES = 1024


@dataclass(frozen=True)
class Shortage:
    """A folder whose disk has no room: what is free there, and what is wanted where that is known [bytes]."""

    folder: str
    free_bytes: int
    wanted_bytes: int = 0

    def __str__(self) -> str:
        wanted = f", {_sized(self.wanted_bytes)} are needed" if self.wanted_bytes else ""
        return f"{_sized(self.free_bytes)} free{wanted}, in {self.folder}"

    @property
    def words(self) -> str:
        """What a user is told while the work waits."""
        return f"waits: the disk is full ({self}). Free some space and it goes on by itself; Ctrl-C ends it for now"


AGAIN = "there is room on the disk again: it goes on"


@dataclass(frozen=True)
class _Patience:
    tell: Callable[[Shortage | None], object]
    stopped: Callable[[], bool]


_patience: _Patience | None = None
_n_waiting = 0


def somebody_waits() -> bool:
    """Whether a thread of this process waits for room at this moment."""
    return _n_waiting > 0


@contextlib.contextmanager
def patient(tell: Callable[[Shortage | None], object], stopped: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """Wait for room, in all threads of this process.

    Parameters
    ----------
    tell
        Hears of a shortage when work begins to wait, and None when it goes on.
    stopped
        Whether somebody asked the process to end: then nothing waits any more.
    """
    with _with(_Patience(tell, stopped)):
        yield


@contextlib.contextmanager
def at_once() -> Iterator[None]:
    """Wait for nothing: what cannot be written now is an error, as at the end of an interrupted process."""
    with _with(None):
        yield


@contextlib.contextmanager
def _with(patience: _Patience | None) -> Iterator[None]:
    global _patience
    before, _patience = _patience, patience
    try:
        yield
    finally:
        _patience = before


def is_full(error: BaseException) -> bool:
    """Whether an error says that a disk is full, or a quota used up."""
    if isinstance(error, DiskFull):
        return True
    if isinstance(error, OSError):
        return error.errno in _FULL
    words = error.problems[0].found if isinstance(error, TestigoError) else str(error)
    return any(full in words for full in FULL_WORDS)


def when_there_is_room(
    work: Callable[[], T],
    folder: Path,
    *,
    wanted_bytes: int = 0,
    is_full: Callable[[Exception], bool] = is_full,
) -> T:
    """Do work that can be done again when it failed; while the disk is full, wait and try again.

    Parameters
    ----------
    wanted_bytes
        How much it writes; 0 where that is not known.

    Raises
    ------
    Exception
        What the work raised, when that was something else, when nobody waits in this process, or when it was asked to
        stop.
    """
    n_tries = 0
    while True:
        try:
            done = work()
        except Exception as error:
            patience = _patience
            if patience is None or not is_full(error):
                raise
            n_tries += 1
            if not _more_room(patience, folder, wanted_bytes, n_tries):
                raise
        else:
            if n_tries and _patience is not None:
                _patience.tell(None)
            return done


def await_room(folder: Path, wanted_bytes: int, *, what_for: str) -> None:
    """Wait until so much is free.

    Raises
    ------
    DiskFull
        When it is not, and nobody waits in this process, or it was asked to stop.
    """
    when_there_is_room(lambda: need(folder, wanted_bytes, what_for=what_for), folder, wanted_bytes=wanted_bytes)


def need(folder: Path, wanted_bytes: int, *, what_for: str) -> None:
    """Go on when so much is free.

    Raises
    ------
    DiskFull
        When it is not.
    """
    shortage = Shortage(str(folder), free_bytes(folder), wanted_bytes)
    if shortage.free_bytes < wanted_bytes:
        raise DiskFull(
            expected=f"room for {what_for}",
            found=str(shortage),
            where=str(folder),
            action="free space, then run the same command again; it goes on where it stood",
        )


def _more_room(patience: _Patience, folder: Path, wanted_bytes: int, n_tries: int) -> bool:
    """Wait until another try is worth it; False when the process was asked to stop."""
    global _n_waiting
    before = free_bytes(folder)
    patience.tell(Shortage(str(folder), before, wanted_bytes))
    _n_waiting += 1
    try:
        return _wait(patience, folder, before, wanted_bytes, n_tries)
    finally:
        _n_waiting -= 1


def _wait(patience: _Patience, folder: Path, before: int, wanted_bytes: int, n_tries: int) -> bool:
    began = time.monotonic()
    at_least = min(_LOOK_EVERY_SECONDS * n_tries, _TRY_EVERY_SECONDS)
    while True:
        if patience.stopped():
            return False
        time.sleep(_LOOK_EVERY_SECONDS)
        free, waited = free_bytes(folder), time.monotonic() - began
        if waited >= at_least and free >= wanted_bytes and (free > before or waited >= _TRY_EVERY_SECONDS):
            return True


def free_bytes(folder: Path) -> int:
    """What is free on the disk of a folder, or of the nearest folder above that exists [bytes]."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return shutil.disk_usage(folder).free


class Notice:
    """A small file by which a process tells that it waits: written in place, since a full disk takes no new one."""

    NAME = "waiting.json"

    def __init__(self, folder: Path) -> None:
        self.path = folder / self.NAME
        with contextlib.suppress(OSError):
            self.path.write_bytes(_padded(None))

    def __call__(self, shortage: Shortage | None) -> None:
        """Tell that the work waits, or that it goes on."""
        with contextlib.suppress(OSError), self.path.open("r+b") as file:
            file.write(_padded(shortage))

    @classmethod
    def read(cls, folder: Path) -> Shortage | None:
        """What the process of a folder waits for; None when it does not wait, or says nothing."""
        try:
            told = json.loads((folder / cls.NAME).read_bytes())
            return Shortage(**told) if told else None
        except (OSError, ValueError, TypeError):
            return None


def _padded(shortage: Shortage | None) -> bytes:
    text = json.dumps(asdict(shortage) if shortage else {})
    return text.encode().ljust(_NOTICE_BYTES)


class Heard:
    """Says once when the process of a folder begins to wait, and when it goes on."""

    def __init__(self, folder: Path, say: Callable[[str], object]) -> None:
        self._folder, self._say = folder, say
        self._waits = False
        (folder / Notice.NAME).unlink(missing_ok=True)  # what an earlier process told

    def look(self) -> None:
        """Look once."""
        shortage = Notice.read(self._folder)
        if (shortage is not None) != self._waits:
            self._waits = shortage is not None
            self._say(f"  {shortage.words if shortage else AGAIN}")


def _sized(n_bytes: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if n_bytes >= size:
            return f"{n_bytes / size:,.1f} {unit}"
    return f"{n_bytes} bytes"
