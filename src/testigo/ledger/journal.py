"""The ledger itself: append, read, verify, export, and the life of runs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import sqlalchemy as sa

from testigo.errors import LedgerError
from testigo.ledger import kinds
from testigo.ledger.anchor import Head, Recalled, advance, anchor_fault, recall
from testigo.ledger.event import Event, canonical_json, chain_faults, check_kind, digest_of
from testigo.ledger.export import event_from, write_export
from testigo.ledger.process import process_is_alive, this_process
from testigo.ledger.runs import Run, check_transition, fold, known
from testigo.ledger.sqlite import SqliteStore
from testigo.ledger.table import Store, events_table, head_of
from testigo.room import when_there_is_room

_events = events_table
Progress = Callable[[str], tuple[int | None, float | None]]
Evidence = Mapping[str, Any]
"""What a run wrote, by the names of its files: their sizes and digests."""


def _now() -> datetime:
    return datetime.fromtimestamp(time.time(), UTC)  # the one clock that all rooms read


class Ledger:
    """An append-only, hash-chained record that many processes may write at once: a SQLite file, or a PostgreSQL schema.

    Use `Ledger.open`. It may be shared by threads and forked processes.
    """

    def __init__(self, store: Store, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._clock = clock

    @property
    def name(self) -> str:
        """Its place, as a message names it."""
        return self._store.name

    @classmethod
    def open(
        cls,
        where: Path | str,
        *,
        create: bool = True,
        wait_seconds: float = 60.0,
        clock: Callable[[], datetime] = _now,
        anchor: Path | None = None,
    ) -> Ledger:
        """Open a ledger, and make it when it does not exist.

        Parameters
        ----------
        where
            A file, usually `ledger.sqlite` in the workspace, whose folder must exist; or a database server:
            `postgresql://USER@HOST:PORT/DATABASE?schema=NAME`.
        create
            False refuses to make a new file, and reads an archived one in a folder that cannot be written.
        wait_seconds
            How long an append waits for other writers, or for a lost server, before it gives up [s].
        anchor
            The file in which this machine remembers the head of a server's ledger. A file's own lies beside it.

        Raises
        ------
        LedgerError
            When the place holds something else, or cannot be read or written.
        """
        text = str(where)
        if "://" in text:
            from testigo.ledger.postgres import PostgresStore

            store: Store = PostgresStore(text, anchor, wait_seconds)
        else:
            path = Path(where)
            if not create and not path.is_file():
                raise LedgerError(
                    expected="a ledger",
                    found="no such file",
                    where=text,
                    action="run the campaign first, or give the right workspace",
                )
            store = SqliteStore(path, wait_seconds, create=create)
        try:
            store.create()
        except BaseException:
            store.close()
            raise
        return cls(store, clock)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the place. Nothing is pending: each append was written when it returned."""
        self._store.close()

    # -- events ------------------------------------------------------------------------------------------------

    def append(self, kind: str, body: Mapping[str, Any], *, run: str | None = None) -> Event:
        """Add one event and return it; when this returns, the event is on the disk.

        Raises
        ------
        LedgerError
            When the body is not plain JSON, when the kind changes a run's state (use the methods for runs), when
            events are missing at the end, or when the file cannot be written.
        """
        if kind in kinds.RUN_STATE_KINDS:
            raise LedgerError(
                expected="an event that does not change a run's state",
                found=kind,
                where="Ledger.append",
                action="use plan_run, start_run, end_run or invalidate_run",
            )
        return self._append(lambda _: (kind, body, run))

    def events(self, kind: str | None = None, run: str | None = None) -> tuple[Event, ...]:
        """The events in their order, all or those of one kind, of one run, or both."""
        query = sa.select(_events).order_by(_events.c.number)
        if kind is not None:
            query = query.where(_events.c.kind == kind)
        if run is not None:
            query = query.where(_events.c.run == run)
        return self._store.read(lambda connection: _whole(_read(connection, query), self.name))

    def head(self) -> Head:
        """The number and digest of the last event."""
        return self._store.read(head_of)

    def verify(self) -> tuple[str, ...]:
        """Faults in words, the first broken link first; empty when nothing was changed and nothing is missing."""
        recalled = self._recalled()

        def read(connection: sa.Connection) -> tuple[list[Event | str], str, tuple[str, ...]]:
            events = list(_read(connection, sa.select(_events).order_by(_events.c.number)))
            return events, _anchor_fault(connection, recalled), self._store.missing_guards(connection)

        try:
            events, anchor, triggers = self._store.read(read)
        except LedgerError as error:
            return (f"the file is damaged: {error.problems[0].found}",)
        faults = [*chain_faults(events), *filter(None, [anchor])]
        if triggers:
            faults.append(f"the guards against changes were removed: {', '.join(triggers)}")
        return tuple(faults)

    def export(self, path: Path) -> int:
        """Write all events as JSON lines that `verify_export` can check alone; returns how many."""
        return write_export(Path(path), self.events())

    # -- runs --------------------------------------------------------------------------------------------------

    def runs(self) -> tuple[Run, ...]:
        """Every run that was ever planned, in that order, with its state as the events tell it."""
        return tuple(fold(self.events()).values())

    def plan_run(self, id: str, *, variant: str, seed: int, defines: Mapping[str, Any]) -> Run:
        """Record a run before it starts. The same run again changes nothing and writes nothing.

        Raises
        ------
        LedgerError
            When the id is known with another definition.
        """
        wanted = Run(id, variant, seed, "planned", defines=json.loads(canonical_json(defines)))

        def event(runs: Mapping[str, Run]) -> tuple[str, Mapping[str, Any], str] | None:
            old = runs.get(id)
            if old is None:
                return kinds.RUN_PLANNED, {"variant": variant, "seed": seed, "defines": wanted.defines}, id
            if (old.variant, old.seed, old.defines) == (variant, seed, wanted.defines):
                return None
            raise LedgerError(
                expected=f"run {id} as it was planned: variant {old.variant}, seed {old.seed}",
                found=f"variant {variant}, seed {seed}, or other settings under the same id",
                where=self.name,
                action="give the changed run its own id",
            )

        self._append_for_run(event)
        return known(fold(self.events(run=id)), id)

    def start_run(self, id: str, *, pid: int | None = None, host: str | None = None) -> int:
        """Record that a process works on a planned or interrupted run; returns the attempt, from 1.

        Parameters
        ----------
        pid, host
            The process that does the work, this one when not given. `mark_dead` later asks after it.
        """

        def event(runs: Mapping[str, Run]) -> tuple[str, Mapping[str, Any], str]:
            run = known(runs, id)
            check_transition(run, "running")
            return kinds.RUN_STARTED, {"attempt": run.attempts + 1, **asdict(this_process(pid, host))}, id

        written = self._append_for_run(event)
        assert written is not None
        return int(written.body["attempt"])

    def end_run(
        self,
        id: str,
        *,
        state: str,
        cause: str = "",
        updates: int | None = None,
        seconds: float | None = None,
        evidence: Evidence | None = None,
    ) -> Run:
        """Record how a running run ended. Updates and seconds that are not known are left as they were.

        Parameters
        ----------
        evidence
            Digests of what the run wrote, by which the dossier knows it again.
        """

        def event(runs: Mapping[str, Run]) -> tuple[str, Mapping[str, Any], str]:
            run = known(runs, id)
            check_transition(run, state)
            if run.state != "running":  # an end state becomes invalid by a person's word only
                raise LedgerError(
                    expected="a running run",
                    found=f"the run is {run.state}",
                    where=f"run {id}",
                    action="declare it invalid with a reason, or make a new variant",
                )
            body = {"attempt": run.attempts, "state": state, "cause": cause, "updates": updates, "seconds": seconds}
            return kinds.RUN_ENDED, body if evidence is None else {**body, "evidence": dict(evidence)}, id

        self._append_for_run(event)
        return known(fold(self.events(run=id)), id)

    def invalidate_run(self, id: str, *, reason: str, by: str = "") -> Run:
        """Declare by hand that an ended run is invalid. It stays, with its earlier state visible.

        Parameters
        ----------
        by
            Who declares it.

        Raises
        ------
        LedgerError
            When it has not ended, or somebody has declared it invalid before: it is told who and why.
        """
        if not reason.strip():
            raise LedgerError(
                expected="a reason in words", found="none", where=f"run {id}", action="say why the run is invalid"
            )

        def event(runs: Mapping[str, Run]) -> tuple[str, Mapping[str, Any], str]:
            run = known(runs, id)
            if run.state in ("planned", "running"):
                raise LedgerError(
                    expected="a run that has ended",
                    found=f"the run is {run.state}",
                    where=f"run {id}",
                    action="wait until it has ended",
                )
            if run.state == "invalid":
                raise LedgerError(
                    expected="a run that is not invalid yet",
                    found=f"it ended as invalid: {run.cause}",
                    where=f"run {id}",
                    action="leave it so; `testigo note` keeps a further reason",
                )
            check_transition(run, "invalid")
            named = {"by": by} if by else {}
            return kinds.RUN_INVALIDATED, {"reason": reason.strip(), "state_before": run.state, **named}, id

        try:
            self._append_for_run(event)
        except LedgerError as error:
            declared = self.events(kinds.RUN_INVALIDATED, id)
            if not declared:
                raise
            raise _invalid_already(id, declared[-1]) from error
        return known(fold(self.events(run=id)), id)

    def mark_dead(
        self, *, progress: Progress | None = None, evidence: Callable[[str], Evidence] | None = None
    ) -> tuple[str, ...]:
        """Runs that are *running* and whose process on this host is gone become *interrupted*; returns their ids.

        A run on another host is left alone: from here nobody can know.

        Parameters
        ----------
        progress
            Given a run's id, the updates it had made and the seconds it had worked, None where not known.
        evidence
            Given a run's id, digests of what it wrote.
        """

        def event(runs: Mapping[str, Run]) -> tuple[str, Mapping[str, Any], str] | None:
            for run in runs.values():
                if run.state == "running" and run.process and process_is_alive(run.process) is False:
                    updates, seconds = progress(run.id) if progress else (None, None)
                    cause = f"process {run.process.pid} on {run.process.host} ended without a word"
                    body: dict[str, Any] = {"attempt": run.attempts, "state": "interrupted", "cause": cause}
                    told = {"evidence": dict(evidence(run.id))} if evidence else {}
                    return kinds.RUN_ENDED, {**body, "updates": updates, "seconds": seconds, **told}, run.id
            return None

        dead: list[str] = []
        while (written := self._append_for_run(event)) is not None:
            dead.append(str(written.run))
        return tuple(dead)

    # -- writing -----------------------------------------------------------------------------------------------

    def _append_for_run(
        self, make: Callable[[Mapping[str, Run]], tuple[str, Mapping[str, Any], str] | None]
    ) -> Event | None:
        """Decide upon the runs as they are while the write lock is held, then append."""

        def decide(connection: sa.Connection) -> tuple[str, Mapping[str, Any], str] | None:
            kinds_of_runs = _events.c.kind.in_(sorted(kinds.RUN_STATE_KINDS))
            found = _read(connection, sa.select(_events).where(kinds_of_runs).order_by(_events.c.number))
            return make(fold(_whole(found, self.name)))

        return self._write(decide)

    def _append(self, make: Callable[[sa.Connection], tuple[str, Mapping[str, Any], str | None]]) -> Event:
        written = self._write(make)
        assert written is not None
        return written

    def _write(self, make: Callable[[sa.Connection], tuple[str, Mapping[str, Any], str | None] | None]) -> Event | None:
        pending: Event | None = None

        def write(connection: sa.Connection) -> Event | None:
            nonlocal pending
            # A server that was lost while it wrote may have written: then the event is there, and is not made twice.
            if pending is not None and _is_there(connection, pending):
                return pending
            wanted = make(connection)
            if wanted is None:
                return None
            kind, body, run = wanted
            check_kind(kind)
            head = head_of(connection)
            self._refuse_to_build_on_a_loss(connection)
            text = canonical_json(body)
            number, time = head.events + 1, self._clock().astimezone(UTC).isoformat(timespec="microseconds")
            plain = json.loads(text)
            digest = digest_of(head.digest, number, time, kind, run, plain)
            pending = Event(number, time, kind, run, plain, head.digest, digest)
            connection.execute(_events.insert().values({**asdict(pending), "body": text}))
            return pending

        event = self._store.write(write)
        if event is not None and self._store.anchor is not None:
            anchor, head = self._store.anchor, Head(event.number, event.digest)
            when_there_is_room(lambda: advance(anchor, head), anchor.parent)
        return event

    def _refuse_to_build_on_a_loss(self, connection: sa.Connection) -> None:
        # A missing anchor is told by `verify` and does not stop the work; one that contradicts the chain does.
        recalled = self._recalled()
        fault = _anchor_fault(connection, recalled) if recalled.path is not None and recalled.path.exists() else ""
        if fault:
            raise LedgerError(
                expected="all events that were ever written",
                found=fault,
                where=self.name,
                action="restore the ledger from a copy; `testigo ledger verify` names what is missing",
            )

    def _recalled(self) -> Recalled:
        """What the anchor says. Read before the chain: the chain may only have grown since."""
        return recall(self._store.anchor)


def _is_there(connection: sa.Connection, event: Event) -> bool:
    at = sa.select(_events.c.digest).where(_events.c.number == event.number)
    return connection.execute(at).scalar_one_or_none() == event.digest


def _anchor_fault(connection: sa.Connection, recalled: Recalled) -> str:
    at = sa.select(_events.c.digest).where(_events.c.number == (recalled.head.events if recalled.head else 0))
    return anchor_fault(recalled, head_of(connection), connection.execute(at).scalar_one_or_none())


def _whole(found: Iterable[Event | str], name: str) -> tuple[Event, ...]:
    """The events, when each is one; LedgerError otherwise."""
    events: list[Event] = []
    for event in found:
        if isinstance(event, str):
            raise LedgerError(
                expected="events as Testigo wrote them",
                found=event,
                where=name,
                action="run `testigo ledger verify`, and restore the ledger from a copy",
            )
        events.append(event)
    return tuple(events)


def _read(connection: sa.Connection, query: sa.Select[Any]) -> Iterator[Event | str]:
    """Rows as events; a text for each row that is not what Testigo writes."""
    for row in connection.execute(query).mappings():
        try:
            event = event_from({**row, "body": json.loads(row["body"])})
            if canonical_json(event.body) != row["body"]:
                raise ValueError("not canonical")
        except (ValueError, TypeError, LedgerError):
            yield f"event {row['number']} ({row['kind']}, {row['time']}) was changed: it is not as Testigo writes"
        else:
            yield event


def _invalid_already(run: str, event: Event) -> LedgerError:
    who = f" by {event.body['by']}" if event.body.get("by") else ""
    return LedgerError(
        expected="a run that nobody has declared invalid yet",
        found=f"it was declared so{who} at {event.time[:19]} (UTC): {event.body['reason']}",
        where=f"event {event.number}, run {run}",
        action="leave it so; `testigo note` keeps a further reason",
    )
