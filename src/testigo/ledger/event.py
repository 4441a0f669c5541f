"""One event of the chain: its canonical text and its digest."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from testigo.errors import LedgerError

GENESIS: Final = "0" * 64
"""What stands for the digest before the first event."""

_KIND = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


@dataclass(frozen=True)
class Event:
    """One thing that happened.

    `number` counts from 1 without gaps and is the only order; `time` is UTC, ISO with microseconds, as the clock
    showed it, and may go back when the clock was set. `digest` = sha256(`previous` + canonical JSON of number, time,
    kind, run and body).
    """

    number: int
    time: str
    kind: str
    run: str | None
    body: dict[str, Any]
    previous: str
    digest: str


def canonical_json(value: object) -> str:
    """The one text of a JSON value: sorted keys, no spaces, UTF-8 signs as they are, floats as Python's repr.

    Raises
    ------
    LedgerError
        For NaN, infinities, keys that are not text, and values that JSON does not know.
    """
    problem = _not_canonical(value, "body")
    if problem:
        raise LedgerError(
            expected="an event of finite numbers, text, true/false, null, lists and objects with text keys",
            found=problem,
            where="the event that was to be written",
            action="leave the value out, or write null in its place",
        )
    return json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _not_canonical(value: object, where: str) -> str:
    """What is wrong with a value, or nothing."""
    if value is None or isinstance(value, bool | int):
        return ""
    if isinstance(value, float):
        return "" if value - value == 0 else f"{value} at {where}"
    if isinstance(value, str):
        return "" if value.isascii() or not re.search("[\ud800-\udfff]", value) else f"half a character at {where}"
    if isinstance(value, Mapping):
        keys = [f"the key {key!r} at {where}" for key in value if not isinstance(key, str)]
        parts = (_not_canonical(part, f"{where}.{key}") for key, part in value.items())
        return next(filter(None, [*keys, *(_not_canonical(key, where) for key in value), *parts]), "")
    if isinstance(value, list | tuple):
        return next(filter(None, (_not_canonical(part, f"{where}[{i}]") for i, part in enumerate(value))), "")
    return f"a {type(value).__name__} at {where}"


def check_kind(kind: str) -> None:
    """Raise LedgerError unless the kind is lower-case words joined by hyphens."""
    if not _KIND.fullmatch(kind):
        raise LedgerError(
            expected="a kind of lower-case words joined by hyphens, such as run-started",
            found=repr(kind),
            where="the event that was to be written",
            action="give the event such a kind",
        )


def digest_of(previous: str, number: int, time: str, kind: str, run: str | None, body: Mapping[str, Any]) -> str:
    """Sha256 over the previous digest and the canonical JSON of the event's own content, as hex."""
    content = canonical_json({"number": number, "time": time, "kind": kind, "run": run, "body": body})
    return hashlib.sha256((previous + content).encode()).hexdigest()


def chain_faults(events: Iterable[Event | str]) -> tuple[str, ...]:
    """What is wrong with a chain, first broken link first; empty when it is whole.

    A text in place of an event is a fault that was met when it was read. One cause gives one fault: after a changed
    event the next one is held against the digest that the changed event still carries.
    """
    faults: list[str] = []
    number, previous = 0, GENESIS
    for event in events:
        if isinstance(event, str):
            faults.append(event)
            number, previous = number + 1, ""
            continue
        name = f"event {event.number} ({event.kind}, {event.time})"
        if event.number > number + 1:
            gone = (
                f"event {number + 1} is"
                if event.number == number + 2
                else f"events {number + 1} to {event.number - 1} are"
            )
            faults.append(f"{gone} missing before {name}")
        elif event.number != number + 1:
            faults.append(f"{name} stands out of order, after event {number}")
        elif previous and event.previous != previous:
            faults.append(f"{name} does not follow event {number}: one of the two was replaced")
        try:
            right = digest_of(event.previous, event.number, event.time, event.kind, event.run, event.body)
        except LedgerError:
            right = ""
        if event.digest != right:
            faults.append(f"{name} was changed: its content does not fit its digest")
        number, previous = event.number, event.digest
    return tuple(faults)
