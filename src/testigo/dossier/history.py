"""What the ledger says about promises: the freeze, its amendments, waivers, openings of the test, the notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from testigo.dossier.files import words
from testigo.dossier.record import Amendment, Gates, Note, Opening, Registration, Waiver
from testigo.ledger import Event

_KNOWLEDGE = {
    "baseline-evaluated": ("the baseline's result", "the baseline's result"),
    "pilot-finished": ("the pilot", "the pilot"),
    "run-ended": ("1 finished run", "{n} finished runs"),
    "run-evaluated": ("1 evaluated run", "{n} evaluated runs"),
    "compared": ("a comparison", "{n} comparisons"),
    "test-opened": ("the sealed test", "the sealed test, opened {n} times"),
}


def registration(events: Sequence[Event]) -> Registration | None:
    """The first freeze; later ones are amendments."""
    if not events:
        return None
    first = events[0]
    return Registration(first.number, str(first.time), first.digest, str(first.body.get("identity", "")))


def amendments(events: Sequence[Event], history: Sequence[Event]) -> tuple[Amendment, ...]:
    """Each change after the freeze, with what had been seen before it."""
    return tuple(
        Amendment(
            number=event.number,
            time=str(event.time),
            reason=str(event.body.get("reason", "no reason recorded")),
            changes=tuple(_changes(event.body.get("changes"))),
            known=known_before(event.number, history),
            identity=str(event.body.get("identity", "")),
        )
        for event in events
    )


def known_before(number: int, history: Sequence[Event]) -> str:
    """What the ledger already held when event `number` was written, in words."""
    parts = []
    for kind, (one, many) in _KNOWLEDGE.items():
        n = sum(event.kind == kind and event.number < number for event in history)
        if n:
            parts.append(one if n == 1 else many.format(n=n))
    return ", ".join(parts) if parts else "nothing: no result had been seen"


def waivers(events: Sequence[Event], declared: Mapping[str, str], gates: Gates | None) -> tuple[Waiver, ...]:
    """Waivers of the ledger and of the campaign file, each once, with what the rule had observed."""
    observed = {finding.code: finding.observed for finding in gates.findings} if gates else {}
    found: dict[str, Waiver] = {}
    for event in events:
        codes: Any = event.body.get("code", event.body.get("codes", ()))
        reason = str(event.body.get("reason", "no reason recorded"))
        for code in [codes] if isinstance(codes, str) else codes:
            found[str(code)] = Waiver(str(code), reason, str(event.time), observed.get(str(code), ""))
    for code, reason in declared.items():
        if code not in found:
            found[code] = Waiver(code, reason, "", observed.get(code, ""))
    return tuple(found[code] for code in sorted(found))


def openings(events: Sequence[Event]) -> tuple[Opening, ...]:
    """Every opening of the sealed test."""
    return tuple(
        Opening(event.number, str(event.time), str(event.body.get("reason", event.body.get("why", ""))))
        for event in events
    )


def notes(events: Sequence[Event]) -> tuple[Note, ...]:
    """The notebook."""
    return tuple(
        Note(
            event.number,
            str(event.time),
            str(event.body.get("text", event.body.get("note", ""))),
            event.run or "",
            str(event.body.get("gate") or ""),
        )
        for event in events
    )


def _changes(value: object) -> list[str]:
    if isinstance(value, Mapping):
        return [f"{key}: {_change(change)}" for key, change in value.items()]
    if isinstance(value, str):
        return [value]
    return [words(item) for item in value] if isinstance(value, list | tuple) else []


def _change(change: object) -> str:
    if isinstance(change, list | tuple) and len(change) == 2:
        return f"{words(change[0]) or 'unset'} → {words(change[1]) or 'unset'}"
    if isinstance(change, Mapping) and {"from", "to"} <= set(change):
        return f"{words(change['from']) or 'unset'} → {words(change['to']) or 'unset'}"
    return words(change)
