"""Faults between the settings of `data.split`: boundaries in time, cuts, and the word for a unit."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator
from typing import Any

from testigo.campaign.fault import Fault
from testigo.campaign.known import Known
from testigo.campaign.sections import BEGIN


def split_faults(known: Known) -> Iterator[Fault]:
    """All faults between the settings of the split and of its unit."""
    yield from _split_by_time(known)
    yield from _unit(known)


def _split_by_time(known: Known) -> Iterator[Fault]:
    if "data.split.time" not in known:
        return
    has_time = known("data.split.time") is not None
    for part in ("validation", "test"):
        value = known(f"data.split.{part}")
        if not isinstance(value, str):
            continue
        begins = value.startswith(BEGIN)
        if begins and not has_time:
            action = "add `time: {field: NAME}` to `data.split`"
            yield Fault(("data", "split", part), "`time:` beside a boundary", f"`{value}` alone", action)
        elif begins and _moment(value) is None:
            expected = "a boundary such as `from 2025-03-01`, or `from 2019` where the times are numbers"
            yield Fault(("data", "split", part), expected, f"`{value}`", "write a date as 2025-03-01")
        elif has_time and not begins:
            expected = "a share or a boundary (`from 2025-03-01`) beside `time`"
            action = "remove `time`, or let all periods come from `source`"
            yield Fault(("data", "split", part), expected, f"`{value}`, a source of its own", action)
    if has_time and known("data.split.cuts", "auto") != "auto":
        found = f"`cuts: {known('data.split.cuts')}`"
        yield Fault(("data", "split", "cuts"), "no `cuts` beside `time`", found, "remove it", "key")
    yield from _boundaries_in_order(known)


def _boundaries_in_order(known: Known) -> Iterator[Fault]:
    validation, test = (_moment(known(f"data.split.{part}")) for part in ("validation", "test"))
    if validation is None or test is None:
        return
    if isinstance(validation, float) != isinstance(test, float):
        found = f"`{known('data.split.validation')}` and `{known('data.split.test')}`"
        yield Fault(("data", "split", "test"), "two dates, or two numbers", found, "write both in the same way")
    elif validation >= test:  # type: ignore[operator]
        expected = f"a test that begins after validation, `{known('data.split.validation')}`"
        found = f"`{known('data.split.test')}`"
        yield Fault(("data", "split", "test"), expected, found, "the newest rows are test: move one boundary")


def _moment(value: Any) -> float | datetime.datetime | None:
    """The time of a boundary; None when it is none."""
    if not isinstance(value, str) or not value.startswith(BEGIN):
        return None
    text = value.removeprefix(BEGIN).strip()
    try:
        number = float(text)
        return number if math.isfinite(number) else None
    except ValueError:
        pass
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)


def _unit(known: Known) -> Iterator[Fault]:
    if known("data.unit") is not None and "data.group" in known and known("data.group") is None:
        expected = "`group:` beside `unit`, the field whose rows stay together"
        yield Fault(("data", "unit"), expected, "no `group`", "add `group: FIELD`, or remove `unit`", "key")
