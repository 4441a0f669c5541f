"""Two prediction files as pairs of the same rows, or an error that names the rows which are not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

from testigo.errors import DataError, Problem

Line = Mapping[str, Any]
"""One line of a predictions file: row, category, group, output, target, scores {metric: value}, prompt_sha256,
probabilities {class: p} where a head gives them, and the answer that was read out of a written output."""


def answer_of(line: Line) -> str:
    """The class that a line answers: as its task read it where a text was written, else the output itself."""
    answer = line.get("answer")
    return str(line["output"] if answer is None else answer)


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
    def targets(self) -> tuple[str, ...]:
        """What each row asks for."""
        return tuple(str(line["target"]) for line in self.before)

    @property
    def same_outputs(self) -> int:
        """How many rows got exactly the same output twice, with the same probabilities where there are any."""
        return sum(
            a.get("output") == b.get("output") and a.get("probabilities") == b.get("probabilities")
            for a, b in zip(self.before, self.after, strict=True)
        )

    def only(self, category: str) -> Pairs:
        """The pairs of one category."""
        return self._those([own == category for own in self.categories])

    def without(self, ids: Collection[str]) -> Pairs:
        """The pairs of all other rows."""
        left_out = set(ids)
        return self._those([id not in left_out for id in self.ids])

    def _those(self, wanted: Sequence[bool]) -> Pairs:
        return Pairs(tuple(compress(self.before, wanted)), tuple(compress(self.after, wanted)))


def pair_up(baseline: Sequence[Line], tuned: Sequence[Line], metrics: Mapping[str, str], name: str) -> Pairs:
    """Pairs by row id.

    Raises
    ------
    DataError
        When a file is empty or has a row twice, when the rows are not the same set, when a row was asked with another
        prompt or for another target, or when a line lacks a metric, or the target of one that all rows have together:
        all problems at once, with the row ids.
    """
    where = f"predictions of the baseline and of {name}"
    problems: list[Problem] = []
    for which, lines in (("the baseline", baseline), (name, tuned)):
        twice = [row for row, count in Counter(str(line["row"]) for line in lines).items() if count > 1]
        if twice:
            problems.append(_problem("each row once", f"{_named(twice)} more than once in {which}", where))
        if not lines:
            problems.append(_problem("at least one row", f"no row in {which}", where))
        for metric, kind in metrics.items():
            lacking = [str(line["row"]) for line in lines if not _has(line, metric, kind)]
            if lacking:
                what = f"target and output for {metric}" if kind == "corpus" else f"a score {metric}"
                problems.append(_problem(f"{what} in each line", f"none for {_named(lacking)} in {which}", where))
    old, new = ({str(line["row"]): line for line in lines} for lines in (baseline, tuned))
    for there, absent, who in ((old, new, name), (new, old, "the baseline")):
        missing = [row for row in there if row not in absent]
        if missing and absent:
            problems.append(_problem("the same rows in both", f"{_named(missing)} missing in {who}", where))
    asked = [row for row in old if row in new and _other(old[row], new[row], "prompt_sha256")]
    if asked:
        problems.append(_problem("the same prompt for a row in both", f"other prompts for {_named(asked)}", where))
    aimed = [row for row in old if row in new and _other(old[row], new[row], "target")]
    if aimed:
        problems.append(_problem("the same target for a row in both", f"other targets for {_named(aimed)}", where))
    if problems:
        raise DataError(problems=problems)
    return Pairs(tuple(baseline), tuple(new[row] for row in old))


def _has(line: Line, metric: str, kind: str) -> bool:
    if kind == "corpus":
        return isinstance(line.get("target"), str) and isinstance(line.get("output"), str)
    return isinstance(line.get("scores", {}).get(metric), int | float)


def _other(old: Line, new: Line, what: str) -> bool:
    a, b = old.get(what), new.get(what)
    return bool(a and b and a != b)


def _named(rows: Sequence[str]) -> str:
    shown = ", ".join(rows[:10]) + (", …" if len(rows) > 10 else "")
    return f"{len(rows)} row{'s' if len(rows) > 1 else ''} ({shown})"


def _problem(expected: str, found: str, where: str) -> Problem:
    return Problem(expected, found, where, "evaluate both on the same rows again, with the same settings")
