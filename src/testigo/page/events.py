"""The ledger as a page: the newest events first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from testigo.dossier import units
from testigo.dossier.files import words
from testigo.page.site import Site, pretty

A_PAGE = 100
_MOST_CHARACTERS = 6000
_BRIEF = 300
_DIGEST = 40
_PROCESS = ("host", "boot", "pid", "started")
"""Which process it was: told in the whole body alone."""


@dataclass(frozen=True)
class EventLine:
    """One event: in brief, and its whole body as text where that says more."""

    number: int
    time: str
    kind: str
    run: str
    digest: str
    brief: str
    body: str


@dataclass(frozen=True)
class EventsPage:
    """A page of events of one kind, or of all. Events before number `older` are on the next page."""

    events: tuple[EventLine, ...]
    n_events: int
    kinds: dict[str, int]
    kind: str
    faults: tuple[str, ...]
    older: int | None


def events_page(site: Site, *, kind: str = "", before: int = 0) -> EventsPage:
    """The newest hundred events, or those before a number."""
    events = site.events
    kinds: dict[str, int] = {}
    for event in events:
        kinds[event.kind] = kinds.get(event.kind, 0) + 1
    kind = kind if kind in kinds else ""
    chosen = [
        event for event in reversed(events) if kind in ("", event.kind) and (before <= 0 or event.number < before)
    ]
    shown = tuple(
        EventLine(
            number=event.number,
            time=str(event.time),
            kind=event.kind,
            run=event.run or "",
            digest=event.digest,
            brief=_brief(event.body),
            body="" if _is_brief(event.body) else pretty(event.body, _MOST_CHARACTERS),
        )
        for event in chosen[:A_PAGE]
    )
    return EventsPage(
        events=shown,
        n_events=len(events),
        kinds=kinds,
        kind=kind,
        faults=site.ledger_faults(),
        older=shown[-1].number if len(chosen) > A_PAGE else None,
    )


def _brief(body: Mapping[str, Any]) -> str:
    """The values of a body that are words and numbers; digests are shortened, trees are left out."""
    plain = {
        key: value
        for key, value in body.items()
        if not isinstance(value, dict | list) and value not in (None, "") and key not in _PROCESS
    }
    told = ", ".join(_said(key, value) for key, value in plain.items())
    return told if len(told) <= _BRIEF else f"{told[:_BRIEF]}…"


def _is_brief(body: Mapping[str, Any]) -> bool:
    """Whether the brief text says all."""
    return all(
        isinstance(value, str | int | float | bool) and len(str(value)) < _DIGEST and key not in _PROCESS
        for key, value in body.items()
    )


def _said(key: str, value: object) -> str:
    if key == "seconds" and isinstance(value, int | float):
        return units.duration(value)
    if key == "text":
        return _value(value)
    return f"{key.replace('_', ' ')} {units.number(value, 4) if isinstance(value, float) else _value(value)}"


def _value(value: object) -> str:
    text = words(value)
    return text[:12] if len(text) >= _DIGEST and " " not in text else text
