"""Many real processes on one ledger, killed ones among them, and disks and folders that refuse."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from testigo.errors import LedgerError
from testigo.ledger import Ledger, kinds, verify_export

WRITER = """
import sys
from testigo.ledger import Ledger
path, name, count, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
with Ledger.open(path) as ledger:
    for i in range(count):
        ledger.append("note", {"writer": name, "i": i, "text": "x" * size})
        print(i, flush=True)
"""


def writer(path: Path, name: str, count: int, size: int = 3000) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(path), name, str(count), str(size)]
    return subprocess.Popen(command, stdout=-1, stderr=-1, text=True)


def test_sixteen_processes_write_five_hundred_events_each_and_what_they_export_verifies_alone(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"  # also made by all sixteen at once
    writers = [writer(path, f"w{i}", 500, 100) for i in range(16)]
    for process in writers:
        _, said = process.communicate()
        assert process.returncode == 0, said
    with Ledger.open(path) as ledger:
        assert ledger.verify() == ()
        events = ledger.events()
        assert ledger.head().events == len(events) == 8000
        assert ledger.export(tmp_path / "events.jsonl") == 8000
    for i in range(16):
        assert [e.body["i"] for e in events if e.body["writer"] == f"w{i}"] == list(range(500))
    assert '"events": 8000' in path.with_name("ledger.head").read_text()
    exported = tmp_path / "events.jsonl"
    assert verify_export(exported) == ()
    lines = exported.read_bytes().split(b"\n")
    lines[3999] = lines[3999].replace(b'"writer":"w', b'"writer":"v')
    del lines[6000]
    exported.write_bytes(b"\n".join(lines))
    faults = verify_export(exported)
    assert faults[0].startswith("event 4000 (note, "), "the first broken link is named first"
    assert any("6001" in fault for fault in faults[1:])


def test_writers_killed_in_the_middle_leave_whole_events_and_a_whole_chain(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    for attempt in range(4):
        before = 0
        if path.exists():
            with Ledger.open(path) as ledger:
                before = ledger.head().events
        with writer(path, "a", 10_000) as a, writer(path, "b", 10_000) as b:
            assert a.stdout is not None
            assert b.stdout is not None
            told = 0
            for _ in range(3 + 5 * attempt):
                a.stdout.readline()
                told += 1
            a.send_signal(signal.SIGKILL)
            b.send_signal(signal.SIGKILL)
            told += len(a.stdout.readlines()) + len(b.stdout.readlines())
        with Ledger.open(path) as ledger:
            assert ledger.verify() == ()
            # each event that was told as written is there; at most one more each was written and not told
            assert before + told <= ledger.head().events <= before + told + 2
            ledger.append(kinds.NOTE, {"writer": "me", "i": 0})
            assert ledger.verify() == ()


def test_a_ledger_is_shared_by_forked_processes(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "ledger.sqlite")
    ledger.append(kinds.NOTE, {"who": "parent"})
    script = "import os,sys\nfrom testigo.ledger import Ledger\n" + (
        "ledger = Ledger.open(sys.argv[1])\nledger.events()\nchild = os.fork()\n"
        "for i in range(10): ledger.append('note', {'who': 'parent' if child else 'child'})\n"
        "child and os.waitpid(child, 0)\n"
    )
    subprocess.run([sys.executable, "-c", script, ledger.name], check=True)
    assert ledger.head().events == 21
    assert ledger.verify() == ()


def assert_four_parts(error: pytest.ExceptionInfo[LedgerError]) -> str:
    problem = error.value.problems[0]
    assert all((problem.expected, problem.found, problem.where, problem.action))
    return str(problem)


def test_a_file_that_is_not_a_ledger_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("not a database, but long enough to be taken for one\n" * 100)
    other = tmp_path / "other.sqlite"
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE customers (name TEXT)")
    connection.commit()
    connection.close()
    for path in (text, other):
        before = path.read_bytes()
        with pytest.raises(LedgerError) as error:
            Ledger.open(path)
        assert str(path) in assert_four_parts(error)
        assert path.read_bytes() == before


def test_a_folder_in_place_of_the_file_a_missing_folder_and_a_missing_ledger_are_told(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing" / "ledger.sqlite"):
        with pytest.raises(LedgerError) as error:
            Ledger.open(path)
        assert_four_parts(error)
    with pytest.raises(LedgerError) as error:
        Ledger.open(tmp_path / "ledger.sqlite", create=False)
    assert "no such file" in assert_four_parts(error)
    assert list(tmp_path.iterdir()) == []


def test_a_ledger_of_a_newer_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    Ledger.open(path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 2")
    connection.close()
    with pytest.raises(LedgerError, match="newer") as error:
        Ledger.open(path)
    assert_four_parts(error)


def test_a_database_that_another_process_holds_is_told_and_works_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    with Ledger.open(path, wait_seconds=0.2) as ledger:
        holder = sqlite3.connect(path, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerError) as error:
            ledger.append(kinds.NOTE, {"text": "waits"})
        assert "other process" in assert_four_parts(error)
        assert ledger.events() == ()  # readers never wait
        holder.execute("ROLLBACK")
        holder.close()
        assert ledger.append(kinds.NOTE, {"text": "goes on"}).number == 1


def test_a_full_disk_is_told_and_nothing_half_written_stays(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    with Ledger.open(path) as ledger:
        ledger.append(kinds.NOTE, {"text": "before"})
    # The limit on a file's size is what the kernel says no with; SQLite meets it as it meets a full disk.
    limited = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))\n"
        "from testigo.errors import LedgerError\n"
    )
    script = (
        limited
        + "import sys\nfrom testigo.ledger import Ledger\nledger = Ledger.open(sys.argv[1])\n"
        + "try:\n  for i in range(1000): ledger.append('note', {'i': i, 'text': 'x' * 3000})\n"
        + "except LedgerError as error: print(error.problems[0]); sys.exit(2)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert "free some space" in done.stdout
    with Ledger.open(path) as ledger:
        assert ledger.verify() == ()
        assert 1 < ledger.head().events < 1000
        ledger.append(kinds.NOTE, {"text": "after"})
        assert ledger.verify() == ()


@pytest.fixture
def as_nobody() -> Iterator[Path]:
    """A folder that may be read and not written, also when the tests run as root: root becomes nobody meanwhile."""
    folder = Path(tempfile.mkdtemp())
    Ledger.open(folder / "old.sqlite").append(kinds.NOTE, {"text": "long ago"})
    folder.chmod(0o555)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield folder
    finally:
        if root:
            os.seteuid(0)
        folder.chmod(0o755)
        shutil.rmtree(folder)


def test_a_folder_that_cannot_be_written_is_told(as_nobody: Path) -> None:
    with pytest.raises(LedgerError) as error:
        Ledger.open(as_nobody / "ledger.sqlite")
    assert "write permission" in assert_four_parts(error)
    with pytest.raises(LedgerError) as error:
        Ledger.open(as_nobody / "old.sqlite").append(kinds.NOTE, {})
    assert "write permission" in assert_four_parts(error)


def test_an_archived_ledger_in_a_folder_that_cannot_be_written_is_read_and_verified(as_nobody: Path) -> None:
    with Ledger.open(as_nobody / "old.sqlite", create=False) as ledger:
        assert ledger.verify() == ()
        assert [event.body["text"] for event in ledger.events()] == ["long ago"]
        with pytest.raises(LedgerError) as error:
            ledger.append(kinds.NOTE, {"text": "now"})
        assert "write permission" in assert_four_parts(error)
