"""The verdict over rules that require each other: what failed, what could not be looked at, and why."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from testigo.rules import CannotCheck, Finding, NotChecked, Passed, Rule, by_reason, found, judge, passed, rule


@dataclass(frozen=True)
class Seen:
    """One number, or nothing."""

    value: float | None


def _rule(code: str, requires: tuple[str, ...], limit: float) -> Rule:
    def is_small(evidence: Seen) -> Finding | Passed:
        """A number is small.

        Why it matters: it is.

        What to do: nothing.

        Source: none.
        """
        if evidence.value is None:
            raise CannotCheck("not measured: the value")
        return passed("small") if evidence.value <= limit else found("large")

    is_small.__annotations__ = {"evidence": Seen}
    return rule(code, "is-small", "stop", phase="data", requires=requires)(is_small)


FIRST, SECOND, THIRD = _rule("Z1", (), 1.0), _rule("Z2", ("Z1",), 2.0), _rule("Z3", ("Z2",), 2.0)


@pytest.mark.parametrize(
    ("value", "why"),
    [(1.5, "its premise Z1 does not hold"), (None, "its premise Z1 could not be checked")],
)
def test_a_premise_that_failed_and_one_that_could_not_be_checked_are_told_apart(value: float | None, why: str) -> None:
    verdict = judge([THIRD, SECOND, FIRST], [Seen(value)])
    reasons = {one.code: one.why for one in verdict.not_checked}
    assert reasons["Z2"] == why
    assert reasons["Z3"] == "its premise Z2 could not be checked"


def test_rules_that_could_not_look_are_grouped_by_their_reason() -> None:
    skipped = [NotChecked("Z1", "no rows"), NotChecked("Z3", "no base"), NotChecked("Z2", "no rows")]
    assert by_reason(skipped) == {"no rows": ["Z1", "Z2"], "no base": ["Z3"]}
