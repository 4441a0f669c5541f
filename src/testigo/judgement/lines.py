"""Two prediction files as pairs of the same rows, or an error that names the rows which are not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from testigo.errors import DataError, Problem

Line = Mapping[str, Any]
"""One line of a predictions file: row, category, group, output, scores {metric: value}, prompt_sha256."""


@dataclass(frozen=True)
class Pairs:
    """The same rows before and after, in the baseline's order."""

    before: tuple[Line, ...]
    after: tuple[Line, ...]

    def __len__(self) -> int:
        return len(self.before)

    @property
    def ids(self) -> tuple[str, ...]:
        """Row ids."""
        return tuple(str(line["row"]) for line in self.before)

    @property
    def groups(self) -> tuple[str, ...]:
        """The group of each row; a row without one is its own."""
        return tuple(str(line.get("group") or line["row"]) for line in self.before)

    @property
    def categories(self) -> tuple[str, ...]:
        """The category of each row, "" when rows have none."""
        return tuple(str(line.get("category") or "") for line in self.before)

    @property
    def same_outputs(self) -> int:
        """How many rows got exactly the same output twice."""
        return sum(a.get("output") == b.get("output") for a, b in zip(self.before, self.after, strict=True))

    def only(self, category: str) -> Pairs:
        """The pairs of one category."""
        kept = [i for i, own in enumerate(self.categories) if own == category]
        return Pairs(tuple(self.before[i] for i in kept), tuple(self.after[i] for i in kept))


def pair_up(baseline: Sequence[Line], tuned: Sequence[Line], metrics: Collection[str], name: str) -> Pairs:
    """Pairs by row id.

    Raises
    ------
    DataError
        When a file is empty or has a row twice, when the rows are not the same set, when a row was asked with another
        prompt, or when a line lacks a metric: all problems at once, with the row ids.
    """
    where = f"predictions of the baseline and of {name}"
    problems: list[Problem] = []
    for which, lines in (("the baseline", baseline), (name, tuned)):
        twice = [row for row, count in Counter(str(line["row"]) for line in lines).items() if count > 1]
        if twice:
            problems.append(_problem("each row once", f"{_named(twice)} more than once in {which}", where))
        if not lines:
            problems.append(_problem("at least one row", f"no row in {which}", where))
        for metric in metrics:
            lacking = [str(line["row"]) for line in lines if not isinstance(_score(line, metric), int | float)]
            if lacking:
                problems.append(
                    _problem(f"a score {metric} in each line", f"none for {_named(lacking)} in {which}", where)
                )
    old, new = ({str(line["row"]): line for line in lines} for lines in (baseline, tuned))
    for there, absent, who in ((old, new, name), (new, old, "the baseline")):
        missing = [row for row in there if row not in absent]
        if missing and absent:
            problems.append(_problem("the same rows in both", f"{_named(missing)} missing in {who}", where))
    asked = [row for row in old if row in new and _other_prompt(old[row], new[row])]
    if asked:
        problems.append(_problem("the same prompt for a row in both", f"other prompts for {_named(asked)}", where))
    if problems:
        raise DataError(problems=problems)
    return Pairs(tuple(baseline), tuple(new[row] for row in old))


def _score(line: Line, metric: str) -> Any:
    return line.get("scores", {}).get(metric)


def _other_prompt(old: Line, new: Line) -> bool:
    a, b = old.get("prompt_sha256"), new.get("prompt_sha256")
    return bool(a and b and a != b)


def _named(rows: Sequence[str]) -> str:
    shown = ", ".join(rows[:10]) + (", …" if len(rows) > 10 else "")
    return f"{len(rows)} row{'s' if len(rows) > 1 else ''} ({shown})"


def _problem(expected: str, found: str, where: str) -> Problem:
    return Problem(expected, found, where, "evaluate both on the same rows again, with the same settings")
