"""Differences and their intervals as lines of text, one under the other: a forest plot for a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_NAME, _BAR = 20, 37


@dataclass(frozen=True)
class Branch:
    """One line: a name, its rows, a difference and its interval, and a word at the end."""

    name: str
    n: int
    difference: float
    low: float
    high: float
    word: str = ""


def branches_of(document: Mapping[str, Any]) -> tuple[Branch, ...]:
    """All rows, each category, each variant against the baseline: of the registered metric."""
    metric = document["improvement"]["metric"]
    found = [_branch("all rows", document["metrics"][metric], document["improvement"]["verdict"])]
    for name, category in (document.get("categories") or {}).items():
        own = category["metrics"][metric]
        found.append(_branch(f"  {name}", own, own.get("verdict", "")))
    for name, variant in (document.get("variants") or {}).items():
        own = variant["improvement"]
        found.append(_branch(f"variant {name}", own, own["verdict"]))
    return tuple(found)


def forest(branches: Sequence[Branch], by: float | None = None) -> list[str]:
    """The plot's lines, 79 columns at most. `│` is no difference, `┊` the registered one, `●` what was observed."""
    reach = max([abs(end) for one in branches for end in (one.low, one.high)] + [by or 0.0, 1e-9])
    lines = [_line(one, reach, by) for one in branches]
    axis = f"{-reach:+.2f}".ljust(_BAR // 2) + "0" + f"{reach:+.2f}".rjust(_BAR // 2)
    return [*lines, " " * (_NAME + 6) + axis]


def _line(one: Branch, reach: float, by: float | None) -> str:
    bar = [" "] * _BAR

    def place(value: float) -> int:
        return round((max(-reach, min(reach, value)) / reach + 1) / 2 * (_BAR - 1))

    low, high = place(one.low), place(one.high)
    for column in range(low, high + 1):
        bar[column] = "─"
    bar[place(0)] = "┼" if low <= place(0) <= high else "│"
    if by is not None:
        bar[place(by)] = "┆" if low <= place(by) <= high else "┊"
    bar[low], bar[high] = "├" if low < high else "─", "┤" if low < high else "─"
    bar[place(one.difference)] = "●"
    name = one.name if len(one.name) <= _NAME else one.name[: _NAME - 1] + "…"
    return f"{name:{_NAME}}{one.n:5} {''.join(bar)} {one.word}".rstrip()


def _branch(name: str, paired: Mapping[str, Any], word: str) -> Branch:
    return Branch(name, int(paired["n"]), paired["difference"], paired["low"], paired["high"], str(word))
