"""The table in a SQLite file: no set-up, many processes on one machine."""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from testigo.errors import LedgerError
from testigo.ledger.anchor import Head, begin, head_path
from testigo.ledger.table import FORMAT, T, metadata, newer_format, not_a_ledger
from testigo.room import LITTLE_BYTES, free_bytes, is_full, when_there_is_room

APPLICATION_ID: Final = 0x54455354  # "TEST", written into the file's header: SQLite's own mark of whose file it is

# An interruption that comes while a connection closes is raised; the pool's own words about it are a traceback.
logging.getLogger("sqlalchemy.pool").setLevel(logging.CRITICAL)

_EFFECTIVE: Final = os.access in os.supports_effective_ids
_ELSEWHERE: Final = "give the path of a ledger.sqlite, or of a file that does not exist yet"

_TRIGGERS: Final = {
    "events_keep_on_update": """BEFORE UPDATE ON events
        BEGIN SELECT RAISE(ABORT, 'an event is never changed'); END""",
    "events_keep_on_delete": """BEFORE DELETE ON events
        BEGIN SELECT RAISE(ABORT, 'an event is never removed'); END""",
    # INSERT OR REPLACE removes rows without asking the trigger above, so a number can be given once only.
    "events_in_order": """BEFORE INSERT ON events
        WHEN NEW.number IS NOT (SELECT COALESCE(MAX(number), 0) + 1 FROM events)
        BEGIN SELECT RAISE(ABORT, 'events are only added at the end'); END""",
}


class SqliteStore:
    """One file. Each use opens it anew: safe after a fork, in threads, and beside others."""

    def __init__(self, path: Path, wait_seconds: float, *, create: bool) -> None:
        self.path = path
        self._wait_seconds = wait_seconds
        self._engine = _make_engine(path, wait_seconds, frozen=not create and _can_be_frozen(path))

    @property
    def name(self) -> str:
        """The path."""
        return str(self.path)

    @property
    def anchor(self) -> Path:
        """`ledger.head` for `ledger.sqlite`."""
        return head_path(self.path)

    def create(self) -> None:
        """Make tables, triggers and anchor of a new ledger, or see that an existing file is one of ours."""
        if self.read(self._is_ready):
            return

        def switch() -> None:
            with _explained(self.path):
                self._switch_to_wal()

        when_there_is_room(switch, self.path.parent, is_full=self._is_full)
        self.write(self._make)

    def read(self, work: Callable[[sa.Connection], T]) -> T:
        """Run work in a transaction that sees one state of the ledger."""

        def read() -> T:
            with _explained(self.path), self._engine.begin() as connection:
                return work(connection)

        return when_there_is_room(read, self.path.parent, is_full=self._is_full)

    def _is_full(self, error: Exception) -> bool:
        """SQLite says "I/O error" where it finds no room for the files that it puts beside the table."""
        return is_full(error) or ("disk I/O error" in str(error) and free_bytes(self.path.parent) < LITTLE_BYTES)

    def write(self, work: Callable[[sa.Connection], T]) -> T:
        """Run work in a transaction that holds the head of the chain: one writer at a time, over all processes."""

        def write() -> T:
            with _explained(self.path), self._engine.execution_options(writes=True).begin() as connection:
                return work(connection)

        return when_there_is_room(write, self.path.parent, is_full=self._is_full)

    def missing_guards(self, connection: sa.Connection) -> tuple[str, ...]:
        """The names of the guarding triggers that somebody dropped or replaced."""
        rows = connection.exec_driver_sql("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
        there = {str(row[0]): row[1] for row in rows}
        return tuple(name for name, what in _TRIGGERS.items() if there.get(name) != f"CREATE TRIGGER {name} {what}")

    def close(self) -> None:
        """Nothing stays open between two uses."""
        self._engine.dispose()

    def _make(self, connection: sa.Connection) -> None:
        if self._is_ready(connection):  # another process was faster
            return
        metadata.create_all(connection)
        for name, what in _TRIGGERS.items():
            connection.exec_driver_sql(f"CREATE TRIGGER {name} {what}")
        connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.exec_driver_sql(f"PRAGMA user_version = {FORMAT}")
        # Before the commit: no ledger is ever seen without its anchor. One that outlived its ledger goes on speaking.
        begin(self.anchor, Head())

    def _is_ready(self, connection: sa.Connection) -> bool:
        """True for a ledger of ours, False for an empty file. Raises LedgerError for anything else."""
        application = connection.exec_driver_sql("PRAGMA application_id").scalar_one()
        version = connection.exec_driver_sql("PRAGMA user_version").scalar_one()
        tables = set(connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'table'").scalars())
        if application == APPLICATION_ID and version > FORMAT:
            raise newer_format(version, self.name)
        if application == APPLICATION_ID and "events" in tables:
            return True
        if application == 0 and not tables:
            return False
        raise not_a_ledger(tables, self.name, _ELSEWHERE)

    def _switch_to_wal(self) -> None:
        """Write-ahead log: readers never wait for the writer. A file system without it stays with the journal."""
        deadline = time.monotonic() + self._wait_seconds
        while True:
            raw = self._engine.raw_connection()
            try:
                raw.cursor().execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:  # SQLite does not wait here by itself
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
            finally:
                raw.close()


def _make_engine(path: Path, wait_seconds: float, *, frozen: bool) -> sa.Engine:
    """An engine on a file; `frozen` reads one that nobody can write, without the files that SQLite puts beside it."""
    how = {"uri": "true", "mode": "ro", "immutable": "1"} if frozen else {}
    engine = sa.create_engine(
        sa.URL.create("sqlite", database=f"file:{quote(str(path))}" if frozen else str(path), query=how),
        poolclass=NullPool,
        connect_args={"timeout": wait_seconds},
    )

    @sa.event.listens_for(engine, "connect")
    def _on_connect(connection: sqlite3.Connection, _record: Any) -> None:
        connection.isolation_level = None  # SQLAlchemy's begin event below decides how a transaction starts
        connection.execute("PRAGMA synchronous = FULL")  # an event that was acknowledged survives a power cut

    @sa.event.listens_for(engine, "begin")
    def _on_begin(connection: sa.Connection) -> None:
        writes = connection.get_execution_options().get("writes", False)
        # IMMEDIATE takes the write lock before the head is read, so two writers never build on the same head.
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _can_be_frozen(path: Path) -> bool:
    """Whether a folder refuses new files, and the ledger lies in it whole, without a log beside it."""
    log = path.with_name(path.name + "-wal")
    return path.is_file() and not os.access(path.parent, os.W_OK, effective_ids=_EFFECTIVE) and not log.exists()


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn what the database or the disk says into an error that a user can act on."""
    try:
        yield
    except (sa.exc.DBAPIError, sqlite3.Error, OSError) as error:
        cause = getattr(error, "orig", None) or error
        raise _to_error(str(cause), path) from error


def _to_error(said: str, path: Path) -> LedgerError:
    low = said.lower()
    if "not a database" in low:
        expected, action = (
            "a ledger that Testigo made",
            _ELSEWHERE,
        )
    elif "locked" in low or "busy" in low:
        expected, action = (
            "a ledger that other processes hold only for moments",
            "wait for the other process, or end it, and run the same command again",
        )
    elif "readonly" in low or "read-only" in low or "unable to open" in low or "permission" in low:
        expected, action = (
            "a file in a folder that exists and may be written",
            "make the folder, or give write permission, or choose another --workspace",
        )
    elif "full" in low or "no space" in low or "disk i/o" in low or "too large" in low:
        expected, action = (
            "free space on the disk for one more event",
            "free some space and run the same command again; nothing half written stays",
        )
    else:
        expected, action = (
            "a ledger that can be read and written",
            "run `testigo ledger verify`; if the file is damaged, restore it from a copy",
        )
    return LedgerError(expected=expected, found=said, where=str(path), action=action)
