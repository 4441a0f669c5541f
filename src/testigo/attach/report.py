"""What the pilot says: findings, phases, and what was not checked."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from testigo.errors import GateFailed, Problem
from testigo.gates.catalogue import promise_of
from testigo.gates.measured import NOT_MEASURED
from testigo.rules import Finding, NotChecked, Passed, Verdict, by_reason

_WIDTH = 80


@dataclass(frozen=True)
class Report:
    """The verdict of the pilot on a Trainer. Print it, or read its fields."""

    verdict: Verdict
    """Findings, passes, and rules that could not be checked, with reasons."""
    phases: tuple[Mapping[str, Any], ...]
    """One row a phase: inputs, bytes before and at the peak, seconds, verdict."""
    platform: Mapping[str, Any]
    """What the verdict belongs to: device and versions."""

    @property
    def ok(self) -> bool:
        """False when a stop-rule found a fault that was not waived."""
        return self.verdict.ok

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was found, faults that stop first."""
        order = {"stop": 0, "warn": 1, "note": 2}
        return tuple(sorted(self.verdict.findings, key=lambda finding: (order[finding.severity], finding.code)))

    @property
    def passed(self) -> tuple[Passed, ...]:
        """Rules that looked and found no fault."""
        return self.verdict.passed

    @property
    def not_checked(self) -> tuple[NotChecked, ...]:
        """Rules that could not look, and why."""
        return self.verdict.not_checked

    def to_json(self) -> dict[str, Any]:
        """Plain values, ready for `json.dumps`; the same keys as `testigo pilot --json`."""
        return {
            "ok": self.ok,
            "findings": [{**asdict(finding), "rows": list(finding.rows)} for finding in self.findings],
            "passed": [asdict(one) for one in self.passed],
            "not_checked": [asdict(one) for one in self.not_checked],
            "waived": dict(self.verdict.waived or {}),
            "phases": [dict(phase) for phase in self.phases],
            "platform": dict(self.platform),
        }

    def table(self) -> str:
        """The report as text, 80 columns wide."""
        lines = [f"{'phase':<11}{'verdict':<21}{'seconds':>7}{'resident':>11}  inputs"]
        for phase in self.phases:
            peak, seconds = phase.get("resident_peak_bytes"), phase.get("seconds")
            memory = "" if peak is None else f"{peak / 2**20:,.0f} MiB"
            took = "" if seconds is None else f"{seconds:.1f}"
            head = f"{phase['phase']:<11}{phase['verdict']:<21}{took:>7}{memory:>11}  "
            lines += textwrap.wrap(head + str(phase["inputs"]), _WIDTH, subsequent_indent=" " * len(head))
        for finding in self.findings:
            waived = (self.verdict.waived or {}).get(finding.code)
            word = f"waived: {waived}" if waived else finding.severity
            lines += ["", *_wrapped(f"{finding.code} {finding.name} ({word})", "")]
            lines += _wrapped(finding.observed, "  found:  ")
            lines += _wrapped(finding.remedy, "  to do:  ")
        counts = f"{len(self.findings)} findings, {len(self.passed)} rules passed"
        lines += ["", f"{'ok' if self.ok else 'not ok'}: {counts}, {len(self.not_checked)} not checked"]
        for why, codes in self._reasons().items():
            lines += _wrapped(f"{why}: {', '.join(codes)}", "  not checked, ")
        return "\n".join(lines)

    def raise_if_stopped(self) -> None:
        """Raise when a stop-rule found a fault.

        Raises
        ------
        GateFailed
            With one problem a finding: what the rule promises, what was found, in which phase, and what to do.
        """
        if self.verdict.stops:
            problems = [
                Problem(
                    expected=promise_of(f.code) or f.name,
                    found=f.observed,
                    where=f"{f.code} {f.name}, phase {f.phase}",
                    action=f.remedy,
                )
                for f in self.verdict.stops
            ]
            raise GateFailed(problems=problems)

    def __str__(self) -> str:
        return self.table()

    def _reasons(self) -> dict[str, list[str]]:
        """Codes by reason; what a Trainer does not show is one reason here, and told one by one in `not_checked`."""
        unseen = "not to be seen on this Trainer"
        return by_reason(
            replace(one, why=unseen) if one.why.startswith(NOT_MEASURED) else one for one in self.not_checked
        )


def _wrapped(text: str, start: str) -> list[str]:
    indent = " " * min(len(start), 10)
    return textwrap.wrap(start + text, _WIDTH, subsequent_indent=indent, break_on_hyphens=False) or [start.rstrip()]
