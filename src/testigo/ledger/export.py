"""The ledger as a text file that can be verified alone."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from testigo.errors import LedgerError
from testigo.ledger.anchor import Head
from testigo.ledger.event import Event, canonical_json, chain_faults

_FIELDS: dict[str, type | tuple[type, ...]] = {
    "number": int,
    "time": str,
    "kind": str,
    "run": (str, type(None)),
    "body": dict,
    "previous": str,
    "digest": str,
}


def write_export(path: Path, events: Iterable[Event]) -> int:
    """Write events as JSON lines, aside and then renamed; returns how many."""
    aside = path.with_name(path.name + ".tmp")
    count = 0
    try:
        with aside.open("w", encoding="utf-8", newline="\n") as file:
            for event in events:
                file.write(canonical_json(asdict(event)) + "\n")
                count += 1
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise LedgerError(
            expected="a file that can be written",
            found=error.strerror or str(error),
            where=str(path),
            action="give a path in a folder that exists, is writable, and has free space",
        ) from error
    return count


def verify_export(path: Path, head: Head | None = None) -> tuple[str, ...]:
    """What is wrong with an exported ledger, in words, first broken link first; empty when it is whole.

    The lines alone cannot show that the last ones were cut off: give `head` (count and last digest, known from
    elsewhere), or verify the file's own hash as `testigo verify` does with a dossier.

    Raises
    ------
    LedgerError
        When the file cannot be read.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise LedgerError(
            expected="an exported ledger",
            found=error.strerror or str(error),
            where=str(path),
            action="give the path of an events.jsonl that `testigo ledger export` wrote",
        ) from error
    if lines[-1] == b"":
        lines.pop()
        cut: tuple[str, ...] = ()
    else:
        cut = (f"the last line of {path.name} is cut off",) if lines[-1] else ()
    events = list(_read(lines))
    faults = (*chain_faults(events), *cut)
    if head is not None:
        digests = {event.number: event.digest for event in events if isinstance(event, Event)}
        if digests.get(head.events, "") != head.digest and head.events:
            faults += (f"event {head.events} is missing or not the one that the ledger's head remembers",)
    return faults


def _read(lines: Iterable[bytes]) -> Iterator[Event | str]:
    for number, line in enumerate(lines, 1):
        try:
            yield event_from(json.loads(line))
        except (ValueError, TypeError, RecursionError):
            yield f"line {number} is not an event"


def event_from(value: Any) -> Event:
    """The event of one JSON object. Raises ValueError when fields are missing, unknown or of another type."""
    if not isinstance(value, dict) or set(value) != set(_FIELDS):
        raise ValueError("not the fields of an event")
    for name, kind in _FIELDS.items():
        if not isinstance(value[name], kind) or isinstance(value[name], bool):
            raise ValueError(f"{name} is of another type")
    return Event(**value)
