from __future__ import annotations

import json
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testigo.errors import LedgerError
from testigo.ledger import Event, Head, Ledger, kinds, verify_export
from testigo.ledger.event import GENESIS, canonical_json, chain_faults, digest_of

GUARDS = ("events_keep_on_update", "events_keep_on_delete", "events_in_order")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    where = tmp_path / "ledger.sqlite"
    with Ledger.open(where) as ledger:
        for number in range(1, 9):
            ledger.append(kinds.NOTE, {"text": f"line {number}"})
    return where


def tamper(path: Path, *statements: str, keep_guards: bool = True) -> None:
    """What somebody with the database's own tool can do: drop the guards, change rows, put the guards back."""
    connection = sqlite3.connect(path)
    guards = [sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master WHERE type = 'trigger'").fetchall()]
    for name in GUARDS:
        connection.execute(f"DROP TRIGGER {name}")
    for statement in statements:
        assert connection.execute(statement).rowcount == 1
    for sql in guards if keep_guards else ():
        connection.execute(sql)
    connection.commit()
    connection.close()


def faults(path: Path) -> tuple[str, ...]:
    with Ledger.open(path) as ledger:
        return ledger.verify()


def test_an_event_comes_back_as_it_was_written_and_the_chain_is_whole(path: Path) -> None:
    body = {"loss": 0.1 + 0.2, "tiny": 5e-324, "words": "ñ 漢 🙂", "none": None, "list": [1, [True]], "big": 2**70}
    with Ledger.open(path) as ledger:
        written = ledger.append("pilot-finished", body, run="control-s0")
        assert ledger.events("pilot-finished") == (written,) == ledger.events(run="control-s0")
        assert written.body == body
        assert written.number == 9
        assert written.time.endswith("+00:00")
        assert datetime.fromisoformat(written.time).tzinfo == UTC
        assert ledger.head() == Head(9, written.digest)
        assert ledger.verify() == ()


def test_the_digest_is_the_documented_one(path: Path) -> None:
    import hashlib

    with Ledger.open(path) as ledger:
        first = ledger.events()[0]
    content = f'{{"body":{{"text":"line 1"}},"kind":"note","number":1,"run":null,"time":"{first.time}"}}'
    assert first.previous == GENESIS
    assert first.digest == hashlib.sha256((GENESIS + content).encode()).hexdigest()


@pytest.mark.parametrize(
    "statement", ["UPDATE events SET kind = 'x'", "DELETE FROM events", "DELETE FROM events WHERE number = 8"]
)
def test_the_database_itself_refuses_to_change_or_remove_an_event(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    with pytest.raises(sqlite3.IntegrityError, match="never"):
        connection.execute(statement)
    connection.close()
    assert faults(path) == ()


@pytest.mark.parametrize("number", [3, 12])
def test_a_number_cannot_be_given_twice_or_ahead_even_by_replacing(path: Path, number: int) -> None:
    connection = sqlite3.connect(path)
    with pytest.raises(sqlite3.IntegrityError, match="only added at the end"):
        connection.execute(f"INSERT OR REPLACE INTO events VALUES ({number}, 't', 'k', NULL, '{{}}', 'p', 'd')")
    connection.close()
    assert faults(path) == ()


@pytest.mark.parametrize(
    "change",
    [
        'body = \'{"text":"line five"}\'',
        'body = \'{"text": "line 5"}\'',  # the same value in other letters
        "body = '{'",
        "body = '[]'",
        "time = '2001-01-01T00:00:00.000000+00:00'",
        "kind = 'exported'",
        "run = 'control-s0'",
        "digest = 'abc'",
    ],
)
def test_a_changed_event_is_found_and_named(path: Path, change: str) -> None:
    tamper(path, f"UPDATE events SET {change} WHERE number = 5")
    first, *others = faults(path)
    assert first.startswith("event 5 (")
    assert "was changed" in first
    assert len(others) <= 1  # a changed digest also breaks the link to event 6


def test_a_change_with_a_fresh_digest_breaks_the_next_link(path: Path) -> None:
    with Ledger.open(path) as ledger:
        old = ledger.events()[4]
    digest = digest_of(old.previous, 5, old.time, old.kind, None, {"text": "forged"})
    tamper(path, f"""UPDATE events SET body = '{{"text":"forged"}}', digest = '{digest}' WHERE number = 5""")
    assert faults(path) == (faults(path)[0],)
    assert faults(path)[0].startswith("event 6 (note")
    assert "does not follow event 5" in faults(path)[0]


def test_a_deleted_event_in_the_middle_is_found(path: Path) -> None:
    tamper(path, "DELETE FROM events WHERE number = 4")
    assert faults(path)[0].startswith("event 4 is missing before event 5 (note")


def test_two_deleted_events_are_found_and_the_first_fault_comes_first(path: Path) -> None:
    tamper(
        path,
        "DELETE FROM events WHERE number = 3",
        "DELETE FROM events WHERE number = 4",
        """UPDATE events SET body = '{"text":"x"}' WHERE number = 7""",
    )
    first, second = faults(path)
    assert first.startswith("events 3 to 4 are missing")
    assert second.startswith("event 7 ")


def test_renumbering_does_not_hide_a_deletion(path: Path) -> None:
    tamper(path, "DELETE FROM events WHERE number = 7", "UPDATE events SET number = 7 WHERE number = 8")
    assert "event 7 (note" in faults(path)[0]


def test_deleted_last_events_are_found_by_the_anchor_and_nothing_is_built_on_the_loss(path: Path) -> None:
    tamper(path, "DELETE FROM events WHERE number = 8")
    assert faults(path) == ("event 8 is missing at the end: ledger.head counts 8 events, the ledger has 7",)
    with Ledger.open(path) as ledger, pytest.raises(LedgerError, match="missing at the end"):
        ledger.append(kinds.NOTE, {"text": "in the place of event 8"})
    assert len(faults(path)) == 1


def test_a_chain_written_anew_is_found_by_the_anchor(path: Path, tmp_path: Path) -> None:
    anchor = path.with_name("ledger.head").read_text()
    path.unlink()
    with Ledger.open(path) as ledger:
        path.with_name("ledger.head").unlink()
        for _ in range(8):
            ledger.append(kinds.NOTE, {"text": "forged"})
    path.with_name("ledger.head").write_text(anchor)
    assert faults(path) == ("event 8 is not the one that ledger.head remembers: the chain was written anew",)


def test_a_ledger_has_its_anchor_before_the_first_event(tmp_path: Path) -> None:
    """Else a third writer could be there before the first one's anchor, and then nobody would make it."""
    new = tmp_path / "new.sqlite"
    with Ledger.open(new) as ledger:
        anchor = new.with_name("new.head")
        assert json.loads(anchor.read_text())["events"] == 0
        assert ledger.verify() == ()
        anchor.unlink()
        assert ledger.verify() == ("new.head is missing: whether the last events were removed cannot be known",)


def test_an_anchor_that_outlived_its_ledger_is_not_overwritten_by_a_new_one(path: Path) -> None:
    path.unlink()
    with Ledger.open(path) as ledger, pytest.raises(LedgerError, match="missing at the end"):
        ledger.append(kinds.NOTE, {"text": "as if nothing had been"})


def test_a_removed_anchor_stays_a_fault_after_more_events(path: Path) -> None:
    path.with_name("ledger.head").unlink()
    with Ledger.open(path) as ledger:
        ledger.append(kinds.NOTE, {"text": "more"})
        assert ledger.verify() == ("ledger.head is missing: whether the last events were removed cannot be known",)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"events": "8", "digest": "x"}', "\x00\xff"])
def test_a_damaged_anchor_is_a_fault_and_not_a_crash(path: Path, text: str) -> None:
    path.with_name("ledger.head").write_text(text)
    assert faults(path) == ("ledger.head cannot be read: whether the last events were removed cannot be known",)


def test_an_anchor_behind_the_chain_is_a_crash_between_the_two_and_heals(path: Path) -> None:
    anchor = path.with_name("ledger.head")
    old = anchor.read_text()
    with Ledger.open(path) as ledger:
        ledger.append(kinds.NOTE, {"text": "its anchor was not written"})
        anchor.write_text(old)
        assert ledger.verify() == ()
        ledger.append(kinds.NOTE, {"text": "next"})
    assert json.loads(anchor.read_text())["events"] == 10


def test_dropped_guards_are_a_fault_of_their_own(path: Path) -> None:
    tamper(path, keep_guards=False)
    assert faults(path) == (f"the guards against changes were removed: {', '.join(GUARDS)}",)


def test_a_damaged_file_is_a_fault(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[4096:8192] = b"\x5a" * 4096
    path.write_bytes(raw)
    with Ledger.open(path) as ledger:
        assert ledger.verify()[0].startswith("the file is damaged")


@pytest.mark.parametrize(
    "body",
    [
        {"loss": float("nan")},
        {"deep": [{"x": float("inf")}]},
        {1: "key"},
        {"set": {1}},
        {"path": Path()},
        {"half": "\ud83d"},
    ],
)
def test_what_is_not_plain_json_is_refused_and_nothing_is_written(path: Path, body: dict[str, object]) -> None:
    with Ledger.open(path) as ledger:
        with pytest.raises(LedgerError) as error:
            ledger.append(kinds.NOTE, body)
        problem = error.value.problems[0]
        assert problem.expected
        assert problem.found
        assert problem.where
        assert problem.action
        assert len(ledger.events()) == 8
        assert ledger.verify() == ()


@pytest.mark.parametrize("kind", ["", "Run", "run started", "run-", "a\nb"])
def test_a_kind_is_lower_case_words(path: Path, kind: str) -> None:
    with Ledger.open(path) as ledger, pytest.raises(LedgerError, match="lower-case"):
        ledger.append(kind, {})


def test_every_kind_of_ours_is_accepted_as_a_kind() -> None:
    from testigo.ledger.event import check_kind

    ours = [value for name, value in vars(kinds).items() if name.isupper() and isinstance(value, str)]
    assert len(ours) >= 18
    for kind in ours:
        check_kind(kind)


def test_a_clock_that_is_set_back_does_not_break_the_order(tmp_path: Path) -> None:
    moments = iter([datetime(2026, 5, 2, tzinfo=UTC) - timedelta(days=day) for day in range(3)])
    with Ledger.open(tmp_path / "ledger.sqlite", clock=lambda: next(moments)) as ledger:
        for text in "abc":
            ledger.append(kinds.NOTE, {"text": text})
        assert [event.body["text"] for event in ledger.events()] == ["a", "b", "c"]
        assert ledger.events()[2].time == "2026-04-30T00:00:00.000000+00:00"
        assert ledger.verify() == ()


def test_the_export_is_verified_alone_and_every_change_of_it_is_found(path: Path, tmp_path: Path) -> None:
    out = tmp_path / "events.jsonl"
    with Ledger.open(path) as ledger:
        assert ledger.export(out) == 8
        head = ledger.head()
    assert verify_export(out, head) == ()
    lines = out.read_text().splitlines(keepends=True)

    def after(*kept: str) -> tuple[str, ...]:
        out.write_text("".join(kept))
        return verify_export(out, head)

    assert after(*lines[:3], *lines[4:])[0].startswith("event 4 is missing")
    assert after(*lines[:2], lines[2].replace("line 3", "line x"), *lines[3:])[0].startswith("event 3 (note")
    assert after(lines[1], lines[0], *lines[2:])[0].startswith("event 1 is missing")
    assert after(*lines[:2], "{}\n", *lines[3:])[0] == "line 3 is not an event"
    assert after(*lines[:7]) == ("event 8 is missing or not the one that the ledger's head remembers",)
    assert verify_export(out) == ()  # without the head a cut end cannot be seen: said in its docstring
    assert after(*lines[:7], lines[7][:40])[0] == "line 8 is not an event"


def test_an_export_into_nowhere_says_so(path: Path, tmp_path: Path) -> None:
    with Ledger.open(path) as ledger, pytest.raises(LedgerError, match="folder"):
        ledger.export(tmp_path / "no" / "events.jsonl")
    with pytest.raises(LedgerError, match=r"events\.jsonl"):
        verify_export(tmp_path / "none.jsonl")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(st.text(), parts, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), json_values, max_size=4))
def test_canonical_json_is_read_back_and_written_the_same(body: dict[str, object]) -> None:
    text = canonical_json(body)
    assert json.loads(text) == body
    assert canonical_json(json.loads(text)) == text


@given(st.integers(1, 6), st.sampled_from(["kind", "time", "run", "body", "previous", "digest", "number"]))
def test_no_field_of_any_event_can_change_unseen(number: int, name: str) -> None:
    events: list[Event] = []
    previous = GENESIS
    for i in range(1, 7):
        digest = digest_of(previous, i, f"t{i}", "note", None, {"i": i})
        events.append(Event(i, f"t{i}", "note", None, {"i": i}, previous, digest))
        previous = digest
    assert chain_faults(events) == ()
    other = {"kind": "exported", "time": "t0", "run": "r", "body": {}, "previous": "x", "digest": "x", "number": 70}
    forged = Event(**{**vars(events[number - 1]), name: other[name]})
    assert chain_faults([*events[: number - 1], forged, *events[number:]])
