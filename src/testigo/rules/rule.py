"""The rule, and the three things that it can answer."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Severity = Literal["stop", "warn", "note"]
_PARTS = ("Why it matters", "What to do", "Source")


@dataclass(frozen=True)
class Finding:
    """A fault that a rule observed. `rows` are row ids; `observed` always carries the numbers."""

    code: str
    name: str
    severity: Severity
    phase: str
    observed: str
    remedy: str
    rows: tuple[str, ...] = ()


@dataclass(frozen=True)
class Passed:
    """A rule that looked and found no fault; it still says what it saw."""

    code: str
    observed: str


DOES_NOT_APPLY = "does not apply: "
"""How the reason of a rule begins that has nothing to look at, whatever is measured."""


@dataclass(frozen=True)
class NotChecked:
    """A rule that could not look, and why."""

    code: str
    why: str

    @property
    def applies(self) -> bool:
        """Whether it would have had something to look at."""
        return not self.why.startswith(DOES_NOT_APPLY)


class CannotCheck(Exception):
    """Raised inside a rule whose evidence lacks what it needs; the argument says what is missing."""


def found(observed: str, *, rows: Iterable[str] = (), remedy: str = "") -> Finding:
    """What a rule returns for a fault; the rule itself adds its code, name, severity, phase and its own remedy."""
    return Finding("", "", "stop", "", observed, remedy, tuple(rows))


def passed(observed: str) -> Passed:
    """What a rule returns when all is well."""
    return Passed("", observed)


@dataclass(frozen=True, eq=False)
class Rule:
    """A pure function over one evidence record, with a permanent code and limits to be set. It equals itself alone."""

    code: str
    name: str
    severity: Severity
    phase: str
    requires: tuple[str, ...]
    evidence: type
    limits: Mapping[str, Any]
    summary: str
    why: str
    remedy: str
    source: str
    function: Callable[..., Finding | Passed]

    def __call__(self, evidence: object, **limits: Any) -> Finding | Passed:
        """Judge one evidence record. Raises `CannotCheck` where the evidence lacks what the rule needs."""
        outcome = self.function(evidence, **limits)
        if isinstance(outcome, Passed):
            return Passed(self.code, outcome.observed)
        remedy = outcome.remedy or self.remedy
        return Finding(self.code, self.name, self.severity, self.phase, outcome.observed, remedy, outcome.rows)


def rule(
    code: str, name: str, severity: Severity, *, phase: str, requires: tuple[str, ...] = ()
) -> Callable[[Callable[..., Finding | Passed]], Rule]:
    """Make a rule of a function. It makes a value and registers nothing; `collect` finds it."""

    def make(function: Callable[..., Finding | Passed]) -> Rule:
        summary, parts = _read_docstring(function, code)
        first, *others = inspect.signature(function).parameters.values()
        evidence = typing.get_type_hints(function)[first.name]
        return Rule(
            code=code,
            name=name,
            severity=severity,
            phase=phase,
            requires=requires,
            evidence=evidence,
            limits={parameter.name: parameter.default for parameter in others},
            summary=summary,
            why=parts["Why it matters"],
            remedy=parts["What to do"],
            source=parts["Source"],
            function=function,
        )

    return make


def _read_docstring(function: Callable[..., object], code: str) -> tuple[str, dict[str, str]]:
    text = inspect.getdoc(function) or ""
    summary, *rest = re.split(rf"^({'|'.join(_PARTS)}):\s*", text, flags=re.MULTILINE)
    parts = {name: " ".join(body.split()) for name, body in zip(rest[::2], rest[1::2], strict=True)}
    missing = [part for part in _PARTS if not parts.get(part)]
    if missing or not summary.strip():
        raise TypeError(f"rule {code}: its docstring needs a first line and the parts {', '.join(_PARTS)}")
    return " ".join(summary.split()), parts
