"""Splits by time: the newest rows decide, those before them guide, the older ones train, with a gap between.

The time is a date or a number, such as the year. A period begins at a boundary: a declared one, or the time from which
on a share of the rows is newer. Rows with the same time are never torn apart.

What belongs together (a group, near-duplicates) is examined in the latest period that it reaches; its older rows would
straddle the boundary and are left out. So are rows less than the embargo before a boundary. Source for the gap: López
de Prado 2018, "Advances in financial machine learning", chapter 7 (purging and embargo).
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from testigo.corpus.row import PlacedRow
from testigo.errors import DataError, Problem

DAY_SECONDS = 86_400.0
_PROTECTED = ("test", "validation", "train")


@dataclass(frozen=True)
class Moment:
    """A time as a number that can be compared: seconds since 1970 for a date, else the number itself."""

    value: float
    is_date: bool

    def __str__(self) -> str:
        if not self.is_date:
            return f"{self.value:.15g}"
        moment = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(seconds=self.value)
        return moment.date().isoformat() if self.value % DAY_SECONDS == 0 else moment.isoformat()


@dataclass(frozen=True)
class Periods:
    """Where each row goes.

    Attributes
    ----------
    split
        For each row "train", "validation" or "test"; None for a row that is left out.
    reasons
        For each row that is left out, why, in words; None for the others.
    boundaries
        Split -> the moment at which its period begins.
    """

    split: list[str | None]
    reasons: list[str | None]
    boundaries: dict[str, Moment]


def moment_of(value: Any) -> Moment | None:
    """A field's value as a time: an ISO 8601 date or date with time (UTC where it names no zone), or a number."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return Moment(float(value), False) if math.isfinite(value) else None
    if not isinstance(value, str):
        return None
    text = value.strip()
    try:
        number = float(text)
        return Moment(number, False) if math.isfinite(number) else None
    except ValueError:
        pass
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)
    return Moment(aware.timestamp(), True)


def moments_of(rows: Sequence[PlacedRow], field: str) -> list[Moment]:
    """The time of each row.

    Raises
    ------
    DataError
        With every row whose time is missing or is none, and where some are dates and others numbers.
    """
    found = [moment_of(one.row.fields.get(field)) for one in rows]
    n_dates = sum(moment.is_date for moment in found if moment)
    dates = 2 * n_dates >= sum(moment is not None for moment in found)
    what = "a date such as 2025-03-01 or 2025-03-01T10:30:00Z" if dates else "a number"
    problems = [
        Problem(f"{what} in '{field}'", _told(one, field), f"{one.where}, row '{one.row.id}'", "correct the row")
        for one, moment in zip(rows, found, strict=True)
        if moment is None or moment.is_date != dates
    ]
    if problems:
        raise DataError(problems=problems)
    return [moment for moment in found if moment is not None]


def _told(one: PlacedRow, field: str) -> str:
    if field not in one.row.fields:
        return f"only {', '.join(list(one.row.fields)[:8])}"
    return repr(one.row.fields[field])[:60]


def split_by_time(
    moments: Sequence[Moment],
    components: Sequence[int],
    begins: Mapping[str, float | str],
    embargo: float,
    unit: str,
) -> Periods:
    """The split of each row by its time.

    Parameters
    ----------
    begins
        "validation" and "test" -> the share of the rows, or the boundary as it is written in the campaign.
    embargo
        Days before each boundary, or units of the number, whose rows are left out.
    unit
        What to call rows that belong together.

    Raises
    ------
    DataError
        When a boundary is a date and the rows have numbers, or the other way about.
    """
    is_date = moments[0].is_date
    boundaries = _boundaries(moments, begins, is_date)
    gap = embargo * (DAY_SECONDS if is_date else 1)
    own = [_own(moment.value, boundaries) for moment in moments]
    latest: dict[int, str] = {}
    for component, name in zip(components, own, strict=True):
        latest[component] = min(latest.get(component, "train"), name, key=_PROTECTED.index)
    reasons: list[str | None] = []
    for moment, name, component in zip(moments, own, components, strict=True):
        after = [begin for begin in boundaries.values() if begin.value - gap <= moment.value < begin.value]
        if name != latest[component]:
            other = latest[component]
            reasons.append(f"older than {boundaries[other]}, and its {unit} goes on into {other}")
        elif gap and after:
            days = f"{embargo:g} days" if is_date else f"{embargo:g}"
            reasons.append(f"within the embargo of {days} before {after[0]}")
        else:
            reasons.append(None)
    split = [None if reason else name for name, reason in zip(own, reasons, strict=True)]
    return Periods(split, reasons, boundaries)


def _own(value: float, boundaries: Mapping[str, Moment]) -> str:
    return next((name for name in ("test", "validation") if value >= boundaries[name].value), "train")


def _boundaries(moments: Sequence[Moment], begins: Mapping[str, float | str], is_date: bool) -> dict[str, Moment]:
    ordered = sorted(moment.value for moment in moments)
    found: dict[str, Moment] = {}
    n_left = len(ordered)  # rows before the period that was placed last
    for name in ("test", "validation"):
        begin = begins[name]
        if isinstance(begin, str):
            moment = moment_of(begin)
            if moment is None or moment.is_date != is_date:
                raise DataError(
                    expected="a boundary of the same kind as the rows' times",
                    found=f"'{begin}', and rows at {Moment(ordered[0], is_date)} to {Moment(ordered[-1], is_date)}",
                    where=f"data.split.{name}",
                    action="write the boundary as the rows write their times",
                )
        else:
            at = min(max(n_left - round(begin * len(ordered)), 0), len(ordered) - 1)
            moment = Moment(ordered[at], is_date)
        found[name] = moment
        n_left = sum(value < moment.value for value in ordered)
    return found
