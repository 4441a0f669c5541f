"""The table in a schema of a PostgreSQL server: for a team, and for many machines.

The head of the chain is held by an advisory lock; changes are refused by triggers and by privileges. A connection that
was lost is made again; whether an event was written before the loss is asked of the table: none is lost, none doubled.
"""

from __future__ import annotations

import os
import re
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from testigo.errors import LedgerError, MissingExtra
from testigo.ledger.anchor import begin
from testigo.ledger.place import server_and_schema, without_password
from testigo.ledger.table import FORMAT, T, head_of, metadata, newer_format, not_a_ledger

_REFUSE: Final = "testigo_refuse"
_IN_ORDER: Final = "testigo_in_order"
_FUNCTIONS: Final = {
    _REFUSE: "BEGIN RAISE EXCEPTION 'an event is never changed or removed'; END",
    _IN_ORDER: """BEGIN
        IF NEW.number IS DISTINCT FROM (SELECT COALESCE(MAX(number), 0) + 1 FROM events) THEN
            RAISE EXCEPTION 'events are only added at the end';
        END IF;
        RETURN NEW;
        END""",
}
_TRIGGERS: Final = {
    "events_keep": f"BEFORE UPDATE OR DELETE ON events FOR EACH ROW EXECUTE FUNCTION {_REFUSE}()",
    "events_keep_all": f"BEFORE TRUNCATE ON events FOR EACH STATEMENT EXECUTE FUNCTION {_REFUSE}()",
    "events_in_order": f"BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION {_IN_ORDER}()",
}
_AWAY: Final = ("refused", "closed", "terminat", "starting up", "shutting down", "timeout", "reset by", "No such file")
"""What the client says, without a code, while a server is not there; a wrong name or password is none of it."""
_LONGEST_PAUSE_SECONDS: Final = 2.0


class PostgresStore:
    """One schema on a server.

    Parameters
    ----------
    url
        `postgresql://USER@HOST:PORT/DATABASE?schema=NAME`. A password is better left to `~/.pgpass` or `PGPASSWORD`.
    anchor
        The file that remembers the head on this machine; None remembers nothing here.
    wait_seconds
        How long a lost server is waited for [s].

    Raises
    ------
    LedgerError
        When the URL is not of this form.
    """

    def __init__(self, url: str, anchor: Path | None, wait_seconds: float) -> None:
        parsed, self._schema = server_and_schema(url)
        self.name = without_password(url)
        self.anchor = anchor
        self._wait_seconds = wait_seconds
        self._engine = _make_engine(parsed, self._schema)
        self._process = os.getpid()

    def create(self) -> None:
        """Make schema, table, triggers, privileges and the machine's anchor, or see that a ledger of ours is there."""
        if not self._try(lambda: self._run(self._is_ready, lock=False)):
            self._try(lambda: self._run(self._make, lock=True))
        if self.anchor is not None and not self.anchor.exists():
            begin(self.anchor, self.read(head_of))

    def read(self, work: Callable[[sa.Connection], T]) -> T:
        """Run work in a transaction that sees one state of the ledger; again when the server was lost in it."""
        return self._try(lambda: self._run(work, lock=False))

    def write(self, work: Callable[[sa.Connection], T]) -> T:
        """Run work in a transaction that holds the head of the chain; again when the server was lost in it."""
        return self._try(lambda: self._run(work, lock=True))

    def missing_guards(self, connection: sa.Connection) -> tuple[str, ...]:
        """The names of triggers that were dropped, disabled or replaced, and of functions that say something else."""
        triggers = connection.exec_driver_sql(
            "SELECT tgname, pg_get_triggerdef(oid), tgenabled FROM pg_trigger WHERE tgrelid = 'events'::regclass"
        )
        there = {str(row[0]): (str(row[1]), row[2]) for row in triggers}
        functions = connection.exec_driver_sql(
            "SELECT proname, prosrc FROM pg_proc WHERE pronamespace = current_schema()::regnamespace"
        )
        bodies = {str(row[0]): str(row[1]) for row in functions}
        missing = [name for name, what in _TRIGGERS.items() if not _stands(there.get(name), what, self._schema)]
        return (*missing, *(name for name, body in _FUNCTIONS.items() if bodies.get(name) != body))

    def close(self) -> None:
        """End the connections."""
        self._engine.dispose()

    def _run(self, work: Callable[[sa.Connection], T], *, lock: bool) -> T:
        if os.getpid() != self._process:  # a fork: the parent's connections stay the parent's
            self._engine.dispose(close=False)
            self._process = os.getpid()
        with self._engine.begin() as connection:
            if lock:
                connection.exec_driver_sql("SELECT pg_advisory_xact_lock(%s)", (zlib.crc32(self._schema.encode()),))
            return work(connection)

    def _try(self, attempt: Callable[[], T]) -> T:
        """Make the attempt until the server answers, or until it was away for too long."""
        deadline, pause = time.monotonic() + self._wait_seconds, 0.05
        while True:
            try:
                return attempt()
            except sa.exc.DBAPIError as error:
                if not _is_lost(error) or time.monotonic() > deadline:
                    raise self._to_error(error) from error
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _is_ready(self, connection: sa.Connection) -> bool:
        """True for a ledger of ours, False for a schema without tables. Raises LedgerError for anything else."""
        tables = connection.exec_driver_sql(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = %s", (self._schema,)
        )
        names = set(tables.scalars())
        if not names:
            return False
        if "events" not in names or "ledger_format" not in names:
            raise not_a_ledger(names, self.name, "name another schema in the URL: ?schema=NAME")
        found = int(connection.exec_driver_sql("SELECT format FROM ledger_format").scalar_one())
        if found > FORMAT:
            raise newer_format(found, self.name)
        return True

    def _make(self, connection: sa.Connection) -> None:
        if self._is_ready(connection):  # another process was faster
            return
        connection.exec_driver_sql(f'CREATE SCHEMA IF NOT EXISTS "{self._schema}"')
        metadata.create_all(connection)
        for name, body in _FUNCTIONS.items():
            connection.exec_driver_sql(
                f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $body${body}$body$"
            )
        for name, what in _TRIGGERS.items():
            connection.exec_driver_sql(f"CREATE TRIGGER {name} {what}")
        connection.exec_driver_sql("CREATE TABLE ledger_format AS SELECT %s::int AS format", (FORMAT,))
        for who in ("PUBLIC", "CURRENT_USER"):
            connection.exec_driver_sql(f"REVOKE UPDATE, DELETE, TRUNCATE ON events, ledger_format FROM {who}")

    def _to_error(self, error: sa.exc.DBAPIError) -> LedgerError:
        said = str(error.orig).strip().splitlines()[0]
        if "permission denied" in said:
            expected, action = "the right to read and add events", "ask the owner of the database: docs/ledger.md"
        elif _is_lost(error) or not getattr(error.orig, "sqlstate", None):
            expected, action = "a database server that answers", "start the server or mend the URL, and run it again"
        else:
            expected, action = "a ledger that can be read and written", "run `testigo ledger verify`"
        return LedgerError(expected=expected, found=said, where=self.name, action=action)


def _make_engine(url: sa.URL, schema: str) -> sa.Engine:
    try:
        import psycopg  # noqa: F401
    except ImportError as error:
        raise MissingExtra("postgres", "psycopg", "keeps the ledger on PostgreSQL") from error
    settings = f"-c search_path={schema} -c lock_timeout=0"
    return sa.create_engine(
        url,
        pool_pre_ping=False,
        pool_size=2,
        connect_args={"options": settings, "connect_timeout": 10, "application_name": "testigo"},
    )


def _is_lost(error: sa.exc.DBAPIError) -> bool:
    """A server that went away, that restarts, or that does not answer; not one that refuses."""
    state = getattr(error.orig, "sqlstate", None) or ""
    # 08 connection, 57P the server is stopped, stopping or starting: PostgreSQL manual, appendix A
    said = str(error.orig)
    return error.connection_invalidated or state.startswith(("08", "57P")) or any(words in said for words in _AWAY)


def _stands(found: tuple[str, Any] | None, what: str, schema: str) -> bool:
    """Whether a trigger is as it was made, and enabled."""
    if found is None or found[1] not in ("O", "A", b"O", b"A"):
        return False
    plain = found[0].replace(f"{schema}.", "").replace(f'"{schema}".', "")
    return _words(what) <= _words(plain)


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.upper()))
