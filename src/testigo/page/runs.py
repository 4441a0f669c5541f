"""All runs: filtered, sorted, page by page, to be chosen for a comparison."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from testigo.page.plan import speed_of, work_of
from testigo.page.site import Site
from testigo.page.standing import RunRow, row_of

A_PAGE = 100
_Key = Callable[[RunRow], Any]
SORTS: dict[str, _Key] = {
    "order": lambda row: 0,
    "run": lambda row: (row.variant, row.seed),
    "state": lambda row: row.state,
    "updates": lambda row: row.updates,
    "loss": lambda row: row.loss,
    "validation": lambda row: row.best_validation,
    "score": lambda row: row.score,
    "time": lambda row: row.seconds,
}
_OF_FILES = ("loss", "validation", "score")
"""What is not in the ledger: to sort by it, each run's files are read."""


@dataclass(frozen=True)
class RunsPage:
    """Runs as asked for. `of` is how many fit the filter, `n_runs` how many there are."""

    rows: tuple[RunRow, ...]
    n_runs: int
    of: int
    start: int
    text: str
    state: str
    states: dict[str, int]
    sort: str
    down: bool
    metric: str


def runs_page(site: Site, asked: Mapping[str, str], start: int = 0) -> RunsPage:
    """One page of the runs that fit."""
    text, sort, down = asked.get("text", "").strip()[:200], asked.get("sort", ""), asked.get("down") == "1"
    sort = sort if sort in SORTS else "order"
    campaign = site.campaign
    metric, speed = campaign.hypothesis.improve.metric if campaign else "", speed_of(site)
    works = work_of(site)
    light = [row_of(site, work, metric, speed, with_files=False) for work in works]
    states: dict[str, int] = {}
    for row in light:
        states[row.state] = states.get(row.state, 0) + 1
    state = asked.get("state", "") if asked.get("state", "") in states else ""
    fitting = [n for n, row in enumerate(light) if state in ("", row.state) and text.lower() in _words(row)]
    full = {n: row_of(site, works[n], metric, speed) for n in fitting} if sort in _OF_FILES else {}
    if sort != "order":
        key = SORTS[sort]
        values = {n: key(full.get(n, light[n])) for n in fitting}
        known = sorted((n for n in fitting if values[n] is not None), key=lambda n: values[n], reverse=down)
        fitting = [*known, *(n for n in fitting if values[n] is None)]
    elif down:
        fitting.reverse()
    start = max(0, min(start, len(fitting) - 1)) // A_PAGE * A_PAGE if fitting else 0
    shown = fitting[start : start + A_PAGE]
    rows = tuple(full.get(n) or row_of(site, works[n], metric, speed) for n in shown)
    return RunsPage(rows, len(works), len(fitting), start, text, state, states, sort, down, metric)


def _words(row: RunRow) -> str:
    return f"{row.id} {row.variant} seed {row.seed} {row.state} {row.cause}".lower()
