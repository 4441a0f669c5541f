"""Room on a real disk that is full: who waits, what is said, what is kept."""

from __future__ import annotations

import errno
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors import SafetensorError
from small_disk import Disk

from testigo import room
from testigo.disk import append, read_lines, write_json
from testigo.errors import DiskFull, LedgerError, WorkspaceError
from testigo.ledger import Ledger, kinds
from testigo.room import Heard, Notice, Shortage, patient

Mount = Callable[[int], Disk]
PATIENCE_SECONDS = 60


def beside(work: Callable[[], Any]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_without_somebody_who_waits_a_full_disk_is_an_error_at_once(mount: Mount) -> None:
    disk = mount(64 << 10)
    disk.fill(but=0)
    with pytest.raises(OSError, match="No space left"):
        write_json(disk.path / "a.json", {"words": "x" * 9000})
    assert [path.name for path in disk.path.iterdir()] == ["filler"], "nothing half written stays"
    with pytest.raises(DiskFull, match="room for a checkpoint"):
        room.await_room(disk.path, 1000, what_for="a checkpoint")


def test_work_waits_for_room_says_so_once_and_goes_on_by_itself(mount: Mount) -> None:
    disk = mount(256 << 10)
    filler = disk.fill(but=0)
    told: list[Shortage | None] = []
    with patient(told.append):
        thread = beside(lambda: write_json(disk.path / "a.json", {"words": "x" * 9000}))
        until(room.somebody_waits)
        assert thread.is_alive()
        filler.unlink()
        thread.join()
    assert (disk.path / "a.json").stat().st_size > 9000
    assert not room.somebody_waits()
    assert [shortage is None for shortage in told] == [False, True]
    assert told[0] is not None
    assert told[0].free_bytes == 0
    assert "Free some space and it goes on by itself" in told[0].words


def test_work_that_knows_what_it_needs_waits_until_so_much_is_free(mount: Mount) -> None:
    disk = mount(1 << 20)
    (disk.path / "little").write_bytes(b"x" * (100 << 10))
    filler = disk.fill(but=48 << 10)
    told: list[Shortage | None] = []
    with patient(told.append):
        thread = beside(lambda: room.await_room(disk.path, 400 << 10, what_for="a checkpoint"))
        until(room.somebody_waits)
        (disk.path / "little").unlink()
        time.sleep(0.8)
        assert thread.is_alive(), "148 kB are not 400"
        filler.unlink()
        thread.join()
    assert "49.2 kB free, 409.6 kB are needed" in str(told[0])


def test_who_waits_ends_when_somebody_asks_for_it(mount: Mount) -> None:
    disk = mount(64 << 10)
    disk.fill(but=0)
    stop = threading.Event()
    raised: list[BaseException] = []

    def work() -> None:
        try:
            append(disk.path / "a.jsonl", "x" * 9000)
        except OSError as error:
            raised.append(error)

    with patient(lambda shortage: None, stop.is_set):
        thread = beside(work)
        until(room.somebody_waits)
        stop.set()
        thread.join()
    assert isinstance(raised[0], OSError)
    assert raised[0].errno == errno.ENOSPC
    with patient(lambda shortage: None), room.at_once(), pytest.raises(OSError, match="No space left"):
        append(disk.path / "a.jsonl", "x" * 9000)


def test_a_line_is_added_whole_or_not_at_all(mount: Mount) -> None:
    """Half a line would swallow the next one, which a resume needs."""
    disk = mount(64 << 10)
    path = disk.path / "steps.jsonl"
    append(path, '{"update": 1}\n')
    filler = disk.fill(but=0)
    with pytest.raises(OSError, match="No space left"):
        append(path, f'{{"update": 2, "rows": "{"x" * 9000}"}}\n')
    assert path.read_text() == '{"update": 1}\n'
    filler.unlink()
    append(path, '{"update": 2}\n')
    assert [line["update"] for line in read_lines(path)] == [1, 2]


def test_an_event_of_the_ledger_waits_for_room_and_is_there_once(mount: Mount) -> None:
    disk = mount(1 << 20)
    with Ledger.open(disk.path / "ledger.sqlite") as ledger:
        ledger.append(kinds.NOTE, {"text": "before"})
        filler = disk.fill(but=0)
        with pytest.raises(LedgerError):
            ledger.append(kinds.NOTE, {"text": "x" * 5000})
        told: list[Shortage | None] = []
        with patient(told.append):
            thread = beside(lambda: ledger.append(kinds.NOTE, {"text": "y" * 5000}))
            until(room.somebody_waits)
            filler.unlink()
            thread.join()
        assert [event.body["text"][:6] for event in ledger.events(kinds.NOTE)] == ["before", "yyyyyy"]
        assert ledger.verify() == ()
    assert told[-1] is None


def test_a_notice_is_written_on_a_full_disk_too_and_heard_once(mount: Mount) -> None:
    disk = mount(64 << 10)
    said: list[str] = []
    heard, notice = Heard(disk.path, said.append), Notice(disk.path)
    disk.fill(but=0)
    heard.look()
    assert said == []
    for _ in range(2):
        notice(Shortage("/data", 12_345, 2_000_000_000))
        heard.look()
    (words,) = said
    assert "12.3 kB free, 2.0 GB are needed, in /data" in words
    notice(None)
    heard.look()
    assert said[1:] == [f"  {room.AGAIN}"]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), True),
        (OSError(errno.EDQUOT, os.strerror(errno.EDQUOT)), True),
        (OSError(errno.EFBIG, os.strerror(errno.EFBIG)), False),
        (OSError(errno.EACCES, os.strerror(errno.EACCES)), False),
        (SafetensorError("I/O error: No space left on device (os error 28)"), True),
        (SafetensorError("header too large"), False),
        (LedgerError(found="database or disk is full"), True),
        (WorkspaceError(found="OSError: [Errno 122] Disk quota exceeded: 'a'"), True),
        (ValueError("no space left in the sentence"), False),
    ],
)
def test_what_a_full_disk_says_is_told_from_other_errors(error: Exception, expected: bool) -> None:
    assert room.is_full(error) == expected


def test_the_free_space_of_a_folder_that_is_still_to_be_made_is_that_of_its_disk(mount: Mount) -> None:
    disk = mount(1 << 20)
    assert room.free_bytes(disk.path / "a" / "b") == shutil.disk_usage(disk.path).free


def test_a_disk_of_a_namespace_is_full_and_frozen_as_a_mounted_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    disk = Disk.mounted(tmp_path / "own", 1 << 20)
    try:
        disk.fill(but=0)
        with pytest.raises(OSError, match="No space left"):
            (disk.path / "more").write_bytes(b"x" * 5000)
        disk.freeze()
        with pytest.raises(OSError, match="Read-only"):
            (disk.path / "filler").unlink()
    finally:
        disk.let_go()
