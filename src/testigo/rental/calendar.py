"""The plan as a calendar file: when each piece begins and ends, for the calendar that a person already uses."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta

from testigo.errors import MissingExtra
from testigo.rental.plan import RentalPlan


def calendar(plan: RentalPlan, *, campaign: str, start: datetime, now: datetime | None = None) -> bytes:
    """The plan's pieces one after another, from `start`, as iCalendar (RFC 5545).

    Raises
    ------
    MissingExtra
        When the library that writes calendars is not installed.
    """
    try:
        from icalendar import Calendar, Event
    except ImportError as error:
        raise MissingExtra("icalendar", "plan", "writes calendar files") from error
    made = Calendar()
    made.add("prodid", "-//Testigo//rental plan//EN")
    made.add("version", "2.0")
    made.add("x-wr-calname", f"Campaign {campaign}")
    begins, stamp = start.astimezone(UTC), (now or datetime.now(UTC)).astimezone(UTC)
    for piece in plan.pieces:
        ends = begins + timedelta(seconds=max(1, round(piece.seconds)))
        event = Event()
        # One piece keeps its id, so that a newer file moves it instead of adding another.
        event.add("uid", hashlib.sha256(f"{campaign}\n{piece.name}".encode()).hexdigest()[:32] + "@testigo")
        event.add("dtstamp", stamp)
        event.add("dtstart", begins)
        event.add("dtend", ends)
        event.add("summary", f"{campaign}: {piece.name}")
        event.add("description", f"{piece.arithmetic}; margin × {plan.margin:g}")
        made.add_component(event)
        begins = ends
    return bytes(made.to_ical())
