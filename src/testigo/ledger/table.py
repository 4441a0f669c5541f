"""The one table of events, the same on every database: rows can be added and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import sqlalchemy as sa

from testigo.errors import LedgerError
from testigo.ledger.anchor import Head

FORMAT: Final = 1
T = TypeVar("T")

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


class Store(Protocol):
    """Where the table lies. Work is handed over as functions, since a server may ask for it a second time."""

    @property
    def name(self) -> str:
        """The place, as a message names it; no password is in it."""
        ...

    @property
    def anchor(self) -> Path | None:
        """The small file that remembers the head of the chain; None where there is no folder for it."""
        ...

    def create(self) -> None:
        """Make the table and its guards, or see that what is there is a ledger of ours."""
        ...

    def read(self, work: Callable[[sa.Connection], T]) -> T:
        """Run work in a transaction that sees one state of the ledger."""
        ...

    def write(self, work: Callable[[sa.Connection], T]) -> T:
        """Run work in a transaction that holds the head of the chain: one writer at a time, over all processes."""
        ...

    def missing_guards(self, connection: sa.Connection) -> tuple[str, ...]:
        """The names of the guards against changes that somebody dropped or replaced."""
        ...

    def close(self) -> None:
        """Let go of files and connections."""
        ...


def newer_format(found: int, name: str) -> LedgerError:
    """The error for a ledger that a later version wrote."""
    return LedgerError(
        expected=f"a ledger of format {FORMAT} or older",
        found=f"format {found}",
        where=name,
        action="install the Testigo that wrote it, or a newer one",
    )


def not_a_ledger(tables: Any, name: str, action: str) -> LedgerError:
    """The error for a database with other tables."""
    return LedgerError(
        expected="a ledger that Testigo made",
        found=f"a database of something else (tables: {', '.join(sorted(tables)) or 'none'})",
        where=name,
        action=action,
    )


def head_of(connection: sa.Connection) -> Head:
    """The number and digest of the last event."""
    last = sa.select(events_table.c.number, events_table.c.digest).order_by(events_table.c.number.desc()).limit(1)
    row = connection.execute(last).first()
    return Head(row.number, row.digest) if row else Head()
