"""The ledger on a real PostgreSQL server: many writers, restarts in between, tampering, and one that says no."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from postgres import Server

from testigo.errors import LedgerError
from testigo.ledger import Ledger, kinds, verify_export
from testigo.ledger.place import with_schema, without_password

WRITER = """
import sys
from pathlib import Path
from testigo.ledger import Ledger
where, name, count, anchor = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
with Ledger.open(where, anchor=Path(anchor)) as ledger:
    for i in range(count):
        ledger.append("note", {"writer": name, "i": i})
        print(i, flush=True)
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    started = Server()
    yield started
    started.remove()


@pytest.fixture
def place(server: Server, request: pytest.FixtureRequest) -> str:
    """A schema of the test's own."""
    return f"{server.url}?schema=t{abs(hash(request.node.name)) % 10**9}"


def written(place: str, anchor: Path, n_events: int = 5) -> None:
    with Ledger.open(place, anchor=anchor) as ledger:
        for number in range(1, n_events + 1):
            ledger.append(kinds.NOTE, {"text": f"line {number} ~ ü € \u0000"})


def faults(place: str, anchor: Path | None = None) -> tuple[str, ...]:
    with Ledger.open(place, anchor=anchor) as ledger:
        return ledger.verify()


def test_sixteen_writers_and_a_server_that_crashes_twice_lose_and_double_nothing(
    server: Server, place: str, tmp_path: Path
) -> None:
    anchor = tmp_path / "ledger.head"
    piped: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    command = [sys.executable, "-c", WRITER, place]
    writers = [subprocess.Popen([*command, f"w{n}", "500", str(anchor)], **piped) for n in range(16)]
    first = writers[0].stdout
    assert first is not None
    for mode in ("immediate", "fast"):
        for _ in range(100):
            first.readline()
        server.stop(mode)
        time.sleep(0.3)
        server.start()
    said = [process.communicate() for process in writers]
    assert [process.returncode for process in writers] == [0] * 16, said[0][1]
    with Ledger.open(place, anchor=anchor) as ledger:
        assert ledger.verify() == ()
        events = ledger.events()
    assert len(events) == 16 * 500
    for n in range(16):
        assert [e.body["i"] for e in events if e.body["writer"] == f"w{n}"] == list(range(500))
    assert json.loads(anchor.read_text())["events"] == 16 * 500


def test_the_same_events_give_the_same_chain_as_in_a_file(place: str, tmp_path: Path) -> None:
    written(place, tmp_path / "ledger.head")
    with Ledger.open(place) as ledger:
        assert ledger.export(tmp_path / "events.jsonl") == 5
    assert verify_export(tmp_path / "events.jsonl") == ()


def test_the_life_of_a_run_is_told_by_a_server_too(place: str) -> None:
    with Ledger.open(place) as ledger:
        ledger.plan_run("control-s0-1", variant="control", seed=0, defines={"updates": 3})
        assert ledger.start_run("control-s0-1", pid=os.getpid()) == 1
        ledger.end_run("control-s0-1", state="completed", updates=3)
        assert [run.state for run in ledger.runs()] == ["completed"]
        assert ledger.verify() == ()


@pytest.mark.parametrize("statement", [
    "UPDATE events SET body = '{}' WHERE number = 2", "DELETE FROM events WHERE number = 5", "TRUNCATE events",
    "INSERT INTO events SELECT 9, time, kind, run, body, previous, 'x' FROM events WHERE number = 5",
])  # fmt: skip
def test_the_server_itself_refuses_changes(server: Server, place: str, tmp_path: Path, statement: str) -> None:
    import psycopg

    written(place, tmp_path / "ledger.head")
    schema = place.partition("schema=")[2]
    grant = f"GRANT ALL ON {schema}.events TO testigo"  # even for an owner who gives the privilege back to itself
    with pytest.raises(psycopg.Error, match=r"never changed or removed|only added at the end"):
        server.sql(f"SET search_path TO {schema}", grant, statement)
    assert faults(place, tmp_path / "ledger.head") == ()


def test_what_an_administrator_changes_is_found_and_named(server: Server, place: str, tmp_path: Path) -> None:
    anchor, schema = tmp_path / "ledger.head", place.partition("schema=")[2]
    written(place, anchor)
    disabled = (f"SET search_path TO {schema}", f"GRANT ALL ON {schema}.events TO testigo",
                "ALTER TABLE events DISABLE TRIGGER ALL")  # fmt: skip
    server.sql(*disabled, 'UPDATE events SET body = \'{"text":"another"}\' WHERE number = 2')
    found = faults(place, anchor)
    assert found[0].startswith("event 2 (note, ")
    assert "was changed" in found[0]
    assert "guards against changes were removed: events_keep, events_keep_all, events_in_order" in found[-1]
    server.sql(*disabled, "DELETE FROM events WHERE number = 5", "ALTER TABLE events ENABLE TRIGGER ALL")
    assert "event 5 is missing at the end: ledger.head counts 5 events, the ledger has 4" in faults(place, anchor)
    with Ledger.open(place, anchor=anchor) as ledger, pytest.raises(LedgerError, match="missing at the end"):
        ledger.append(kinds.NOTE, {"text": "on top of a loss"})


def test_a_function_that_was_replaced_is_found(server: Server, place: str, tmp_path: Path) -> None:
    written(place, tmp_path / "ledger.head")
    body = "CREATE OR REPLACE FUNCTION testigo_refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'"
    server.sql(f"SET search_path TO {place.partition('schema=')[2]}", body)
    assert faults(place) == ("the guards against changes were removed: testigo_refuse",)


def test_a_member_of_the_team_adds_and_reads_and_no_more(server: Server, place: str, tmp_path: Path) -> None:
    written(place, tmp_path / "ledger.head")
    schema = place.partition("schema=")[2]
    server.sql("DROP ROLE IF EXISTS mate", "CREATE ROLE mate LOGIN", f"GRANT USAGE ON SCHEMA {schema} TO mate",
               f"GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA {schema} TO mate")  # fmt: skip
    with Ledger.open(place.replace("testigo@", "mate@"), anchor=tmp_path / "mate.head") as ledger:
        ledger.append(kinds.NOTE, {"text": "from the mate"})
        assert ledger.head().events == 6
        assert ledger.verify() == ()
    server.sql(f"REVOKE INSERT ON ALL TABLES IN SCHEMA {schema} FROM mate")
    with Ledger.open(place.replace("testigo@", "mate@")) as ledger, pytest.raises(LedgerError) as error:
        ledger.append(kinds.NOTE, {"text": "no longer"})
    assert "the right to read and add events" in str(error.value)
    server.sql(f"REVOKE ALL ON ALL TABLES IN SCHEMA {schema} FROM mate", f"REVOKE ALL ON SCHEMA {schema} FROM mate",
               "DROP ROLE mate")  # fmt: skip


def test_a_schema_of_something_else_and_a_newer_format_are_refused(server: Server, place: str) -> None:
    schema = place.partition("schema=")[2]
    server.sql(f"CREATE SCHEMA {schema}", f"CREATE TABLE {schema}.customers (name text)")
    with pytest.raises(LedgerError, match=r"something else \(tables: customers\)"):
        Ledger.open(place)
    server.sql(f"DROP SCHEMA {schema} CASCADE")
    Ledger.open(place).close()
    server.sql(f"GRANT ALL ON {schema}.ledger_format TO testigo", f"UPDATE {schema}.ledger_format SET format = 2")
    with pytest.raises(LedgerError, match="or a newer one"):
        Ledger.open(place)


def test_a_server_that_does_not_answer_is_told_without_the_password(server: Server) -> None:
    gone = f"postgresql://user:secret@127.0.0.1:{server.port + 1 if server.port < 65535 else 1}/db"
    with pytest.raises(LedgerError) as error:
        Ledger.open(gone, wait_seconds=0.2)
    assert "a database server that answers" in str(error.value)
    for url in ("mysql://user:secret@host/db", "postgresql://user:secret@host/db?schema=No;Good", "postgresql://h:x/"):
        with pytest.raises(LedgerError) as refused:
            Ledger.open(url)
        assert "secret" not in str(error.value) + str(refused.value)


def test_each_campaign_has_a_schema_of_its_own_and_the_password_is_not_written_down() -> None:
    url = "postgresql://me:secret@db.example:5433/team"
    assert with_schema(url, "Orders 2026!") == f"{url}?schema=testigo_orders_2026_"
    assert with_schema(f"{url}?schema=mine", "orders") == f"{url}?schema=mine"
    assert without_password(with_schema(url, "orders")) == "postgresql://me@db.example:5433/team?schema=testigo_orders"
