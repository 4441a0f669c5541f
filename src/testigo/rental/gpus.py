"""The same campaign on other GPUs: what the data sheets let one expect, and what a pilot measured there.

Training goes with the rate of arithmetic, writing answers with the memory's bandwidth (each token reads all weights);
starts and loading stay as they were. No machine reaches its data sheet, so an estimate is a ratio of two of them, and
is called one until a pilot ran there.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from testigo.errors import CampaignError, Problem
from testigo.rental.plan import RentalPlan

GB = 10**9


@dataclass(frozen=True)
class Gpu:
    """A row of the table."""

    name: str
    match: str
    memory_gb: float
    bandwidth_gb_s: float
    rate_tflops: float
    source: str = ""
    price_per_hour: float | None = None


@dataclass(frozen=True)
class Offer:
    """The campaign on one GPU. `seconds` is None where there is nothing to reckon from; `basis` says why or how."""

    gpu: Gpu
    fits: bool | None
    seconds: float | None
    cost: float | None
    basis: str


@dataclass(frozen=True)
class Piloted:
    """What a pilot on some machine measured: the plan from it, and the memory that it reached."""

    device: str
    plan: RentalPlan
    peak_bytes: int | None


def table_text() -> str:
    """The table that comes with Testigo, to be edited."""
    return (files("testigo.rental") / "gpus.toml").read_text(encoding="utf-8")


def read_table(path: Path | None = None) -> tuple[Gpu, ...]:
    """The GPUs of a table; of the one that comes with Testigo when none is given.

    Raises
    ------
    CampaignError
        With everything that is wrong in the file.
    """
    where = str(path) if path else "gpus.toml"
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8") if path else table_text())
    except (OSError, ValueError) as error:
        found = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise CampaignError(expected="a table of GPUs (TOML)", found=found, where=where, action=_WRITE) from error
    rows = document.get("gpu")
    if not isinstance(rows, list) or not rows:
        raise CampaignError(expected="rows [[gpu]]", found="none", where=where, action=_WRITE)
    problems: list[Problem] = []
    table = [gpu for i, row in enumerate(rows, 1) if (gpu := _row(row, f"{where}, row {i}", problems))]
    if problems:
        raise CampaignError(problems=problems)
    return tuple(table)


_WRITE = "testigo plan CAMPAIGN --write-gpus FILE writes one to begin with"
_NUMBERS = ("memory_gb", "bandwidth_gb_s", "rate_tflops")
_WORDS = ("name", "match", "source")


def _row(row: Any, where: str, problems: list[Problem]) -> Gpu | None:
    if not isinstance(row, Mapping):
        problems.append(Problem("a table", repr(row), where, _WRITE))
        return None
    before = len(problems)
    for name in sorted(set(row) - {*_NUMBERS, *_WORDS, "price_per_hour"}):
        problems.append(
            Problem(f"{', '.join((*_WORDS, *_NUMBERS))} or price_per_hour", f"`{name}`", where, "take it out")
        )
    for name in _NUMBERS:
        if not _positive(row.get(name)):
            problems.append(Problem(f"{name}: a number above 0", repr(row.get(name)), where, "give the data sheet's"))
    if "price_per_hour" in row and not (_positive(row["price_per_hour"]) or row["price_per_hour"] == 0):
        problems.append(
            Problem("price_per_hour: a number from 0", repr(row["price_per_hour"]), where, "give the offer's")
        )
    for name in ("name", "match"):
        if not isinstance(row.get(name), str) or not row[name].strip():
            problems.append(Problem(f"{name}: a word", repr(row.get(name)), where, "name the GPU"))
    return Gpu(**row) if len(problems) == before else None


def _positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0


def row_of(device: str, table: Sequence[Gpu]) -> Gpu | None:
    """The row whose `match` stands in a device's name; the longest where several do."""
    plain = _plain(device)
    found = [gpu for gpu in table if _plain(gpu.match) in plain]
    return max(found, key=lambda gpu: len(gpu.match)) if found else None


def _plain(name: str) -> str:
    """Words of letters and digits with a blank around each, so that A10 does not stand in A100."""
    return f" {' '.join(re.findall(r'[a-z0-9]+', name.lower()))} "


def offers(pilots: Sequence[Piloted], table: Sequence[Gpu], *, price_per_hour: float | None = None) -> list[Offer]:
    """The campaign on each GPU of the table, by the last pilot, and by its own where one ran there.

    `price_per_hour` is that of the campaign, for the machine of the last pilot; other prices stand in the table.
    """
    last = pilots[-1]
    here = row_of(last.device, table)
    own = {gpu.name: one for one in pilots if (gpu := row_of(one.device, table))}
    made = []
    for gpu in table:
        price = gpu.price_per_hour
        if price is None and gpu == here:
            price = price_per_hour
        piloted = own.get(gpu.name)
        if piloted is not None:
            seconds, basis = piloted.plan.seconds, "measured by a pilot there"
        elif here is not None:
            seconds = _scaled(last.plan, here, gpu)
            basis = f"estimate from the pilot on {here.name}"
        else:
            seconds, basis = None, f"no estimate: the table has no row for {last.device}"
        peak = (piloted or last).peak_bytes
        fits = None if peak is None else peak <= gpu.memory_gb * GB
        cost = None if price is None or seconds is None else price * seconds / 3600
        made.append(Offer(gpu, fits, seconds, cost, basis))
    return made


def _scaled(plan: RentalPlan, here: Gpu, there: Gpu) -> float:
    """Seconds of a plan on another GPU, its margin included."""
    by_rate, by_bandwidth = here.rate_tflops / there.rate_tflops, here.bandwidth_gb_s / there.bandwidth_gb_s
    factors = {"training": by_rate, "reserve": by_rate, "pilot": by_rate}
    factors |= {"baseline": by_bandwidth, "evaluation": by_bandwidth, "test": by_bandwidth}
    return sum(piece.seconds * factors.get(piece.kind, 1.0) for piece in plan.pieces)


def machine_of(phases: Path) -> tuple[str, int | None]:
    """The device that a pilot ran on, and the most memory that any of its phases reached [bytes].

    On a GPU the reserved memory counts, which is what must fit; on a CPU the process's resident memory.
    """
    document = json.loads(phases.read_text(encoding="utf-8"))
    platform = document.get("platform") or {}
    rows = document.get("phases") or ()
    peaks = [row.get("reserved_peak_bytes") or row.get("resident_peak_bytes") for row in rows]
    known = [int(peak) for peak in peaks if isinstance(peak, int | float)]
    return str(platform.get("device") or "this machine"), max(known, default=None)
