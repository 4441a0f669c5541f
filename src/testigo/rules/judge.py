"""All rules over all evidence: the verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from testigo.rules.rule import CannotCheck, Finding, NotChecked, Passed, Rule

_FAILED, _UNKNOWN = "does not hold", "could not be checked"


def by_reason(skipped: Iterable[NotChecked]) -> dict[str, list[str]]:
    """Why rules could not look -> the codes of those that could not for this reason, in their order."""
    reasons: dict[str, list[str]] = {}
    for one in skipped:
        reasons.setdefault(one.why, []).append(one.code)
    return reasons


@dataclass(frozen=True)
class Verdict:
    """What was found, what passed, and what could not be checked. `waived` maps a code to its written reason."""

    findings: tuple[Finding, ...] = ()
    passed: tuple[Passed, ...] = ()
    not_checked: tuple[NotChecked, ...] = ()
    waived: Mapping[str, str] | None = None

    @property
    def stops(self) -> tuple[Finding, ...]:
        """The findings that stop the campaign: severity stop, and not waived."""
        waived = self.waived or {}
        return tuple(f for f in self.findings if f.severity == "stop" and f.code not in waived)

    @property
    def ok(self) -> bool:
        """True when nothing stops the campaign."""
        return not self.stops

    @property
    def blind(self) -> tuple[NotChecked, ...]:
        """The rules that had something to look at and could not."""
        return tuple(skipped for skipped in self.not_checked if skipped.applies)

    def __add__(self, other: Verdict) -> Verdict:
        return Verdict(
            self.findings + other.findings,
            self.passed + other.passed,
            self.not_checked + other.not_checked,
            {**(self.waived or {}), **(other.waived or {})},
        )


def judge(
    rules: Iterable[Rule],
    evidence: Iterable[object],
    *,
    limits: Mapping[str, Mapping[str, Any]] | None = None,
    waivers: Mapping[str, str] | None = None,
) -> Verdict:
    """Apply each rule to each evidence record of its type.

    Parameters
    ----------
    rules
        Any order; they are judged so that a rule comes after those that it requires.
    evidence
        Records of any types. A rule whose type is absent answers *could not be checked*.
    limits
        Overrides by code, as in the campaign's `rules:`.
    waivers
        Written reasons by code. A waived finding stays in `findings` and does not stop.
    """
    records = list(evidence)
    limits = limits or {}
    findings: list[Finding] = []
    passes: list[Passed] = []
    skipped: list[NotChecked] = []
    bad: dict[str, str] = {}
    for rule in _in_order(tuple(rules)):
        unmet = {code: bad[code] for code in rule.requires if code in bad}
        own = [record for record in records if isinstance(record, rule.evidence)]
        if unmet:
            how = min(unmet.values(), key=(_FAILED, _UNKNOWN).index)
            codes = ", ".join(code for code, own in unmet.items() if own == how)
            skipped.append(NotChecked(rule.code, f"its premise {codes} {how}"))
            bad[rule.code] = _UNKNOWN
            continue
        if not own:
            skipped.append(NotChecked(rule.code, f"no {rule.evidence.__name__} was collected"))
            bad[rule.code] = _UNKNOWN
            continue
        for record in own:
            try:
                outcome = rule(record, **limits.get(rule.code, {}))
            except CannotCheck as reason:
                skipped.append(NotChecked(rule.code, str(reason)))
                bad[rule.code] = _UNKNOWN
                continue
            if isinstance(outcome, Passed):
                passes.append(outcome)
            else:
                findings.append(outcome)
                bad[rule.code] = _FAILED
    return Verdict(tuple(findings), tuple(passes), tuple(skipped), dict(waivers or {}))


@lru_cache(maxsize=16)
def _in_order(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    by_code = {rule.code: rule for rule in rules}
    ordered: dict[str, Rule] = {}

    def visit(rule: Rule, path: tuple[str, ...]) -> None:
        if rule.code in path:
            raise ValueError(f"rules require each other in a circle: {' -> '.join((*path, rule.code))}")
        for code in rule.requires:
            if code in by_code:
                visit(by_code[code], (*path, rule.code))
        ordered.setdefault(rule.code, rule)

    for rule in sorted(rules, key=lambda r: r.code):
        visit(rule, ())
    return tuple(ordered.values())
