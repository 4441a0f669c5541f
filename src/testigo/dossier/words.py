"""Short words for the names that rules, tests and intervals carry in the data."""

from __future__ import annotations

from functools import cache

from testigo.rules import Rule, collect


@cache
def _rules() -> dict[str, Rule]:
    return {rule.code: rule for rule in collect("testigo.gates", "testigo.watch")}


def explained(code: str) -> str:
    """What a rule looks at, in one line; empty for a user's own rule."""
    rule = _rules().get(code)
    return rule.summary if rule else ""


def in_words(name: str | None) -> str:
    """A test's or interval's name as prose."""
    return (name or "").replace("_", " ").replace("-", " ")
