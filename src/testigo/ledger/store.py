"""Where the events lie: one table, in which rows can be added and nothing else.

The table is plain SQL, so that a database server can hold it later by its URL; only the pragmas, the triggers and the
lock below are SQLite's.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from testigo.errors import LedgerError
from testigo.ledger.anchor import Head, head_path, write_head

FORMAT: Final = 1
APPLICATION_ID: Final = 0x54455354  # "TEST", written into the file's header: SQLite's own mark of whose file it is

_EFFECTIVE: Final = os.access in os.supports_effective_ids

metadata = sa.MetaData()
events_table = sa.Table(
    "events",
    metadata,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("time", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("run", sa.Text, nullable=True),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("previous", sa.Text, nullable=False),
    sa.Column("digest", sa.Text, nullable=False, unique=True),
)

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


def make_engine(path: Path, wait_seconds: float, *, frozen: bool = False) -> sa.Engine:
    """An engine on a SQLite file. Each use opens the file anew: safe after a fork, in threads, and beside others.

    `frozen` reads a file that nobody can write, in a folder where SQLite cannot put its own files beside it.
    """
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


@contextmanager
def reading(engine: sa.Engine, path: Path) -> Iterator[sa.Connection]:
    """A transaction that sees one state of the ledger."""
    with explained(path), engine.begin() as connection:
        yield connection


@contextmanager
def writing(engine: sa.Engine, path: Path) -> Iterator[sa.Connection]:
    """A transaction that holds the head of the chain: one writer at a time, over all processes."""
    with explained(path), engine.execution_options(writes=True).begin() as connection:
        yield connection


def create(engine: sa.Engine, path: Path, wait_seconds: float) -> None:
    """Make the tables, triggers and anchor of a new ledger, or see that an existing file is one of ours."""
    if _is_ready(engine, path):
        return
    with explained(path):
        _switch_to_wal(engine, wait_seconds)
    with writing(engine, path) as connection:
        if _format_of(connection, path):  # another process was faster
            return
        metadata.create_all(connection)
        for name, what in _TRIGGERS.items():
            connection.exec_driver_sql(f"CREATE TRIGGER {name} {what}")
        connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.exec_driver_sql(f"PRAGMA user_version = {FORMAT}")
        anchor = head_path(path)
        # Before the commit: no ledger is ever seen without its anchor. One that outlived its ledger goes on speaking.
        if not anchor.exists():
            write_head(anchor, Head())


def can_be_frozen(path: Path) -> bool:
    """Whether a folder refuses new files, and the ledger lies in it whole, without a log beside it."""
    log = path.with_name(path.name + "-wal")
    return path.is_file() and not os.access(path.parent, os.W_OK, effective_ids=_EFFECTIVE) and not log.exists()


def missing_triggers(connection: sa.Connection) -> tuple[str, ...]:
    """The names of the guarding triggers that somebody dropped or replaced."""
    rows = connection.exec_driver_sql("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
    there = {str(row[0]): row[1] for row in rows}
    return tuple(name for name, what in _TRIGGERS.items() if there.get(name) != f"CREATE TRIGGER {name} {what}")


def _is_ready(engine: sa.Engine, path: Path) -> bool:
    with reading(engine, path) as connection:
        return _format_of(connection, path)


def _format_of(connection: sa.Connection, path: Path) -> bool:
    """True for a ledger of ours, False for an empty file. Raises LedgerError for anything else."""
    application = connection.exec_driver_sql("PRAGMA application_id").scalar_one()
    version = connection.exec_driver_sql("PRAGMA user_version").scalar_one()
    tables = set(connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'table'").scalars())
    if application == APPLICATION_ID and version > FORMAT:
        raise LedgerError(
            expected=f"a ledger of format {FORMAT} or older",
            found=f"format {version}",
            where=str(path),
            action="install the Testigo that wrote it, or a newer one",
        )
    if application == APPLICATION_ID and "events" in tables:
        return True
    if application == 0 and not tables:
        return False
    raise LedgerError(
        expected="a ledger that Testigo made",
        found=f"a SQLite database of something else (tables: {', '.join(sorted(tables)) or 'none'})",
        where=str(path),
        action="give the path of a ledger.sqlite, or of a file that does not exist yet",
    )


def _switch_to_wal(engine: sa.Engine, wait_seconds: float) -> None:
    """Write-ahead log: readers never wait for the writer. A file system that cannot do it stays with the journal."""
    deadline = time.monotonic() + wait_seconds
    while True:
        raw = engine.raw_connection()
        try:
            raw.cursor().execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:  # SQLite does not wait here by itself
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        finally:
            raw.close()


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn what the database or the disk says into an error that a user can act on."""
    try:
        yield
    except (sa.exc.DBAPIError, sqlite3.Error, OSError) as error:
        cause = getattr(error, "orig", None) or error
        raise _explain(str(cause), path) from error


def _explain(said: str, path: Path) -> LedgerError:
    low = said.lower()
    if "not a database" in low:
        expected, action = (
            "a ledger that Testigo made",
            "give the path of a ledger.sqlite, or of a file that does not exist yet",
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
