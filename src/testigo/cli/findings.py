"""Findings for a reader."""

from __future__ import annotations

from typing import TYPE_CHECKING

from testigo.cli.output import show, show_part
from testigo.counting import counted
from testigo.rules import DOES_NOT_APPLY, by_reason
from testigo.signs import in_one_line

if TYPE_CHECKING:
    from testigo.rules import Verdict

_STYLES = {"stop": "bold red", "warn": "yellow", "note": "cyan"}
_SHOWN_ROWS = 8


def print_verdict(verdict: Verdict) -> None:
    """Each finding with its rows and remedy; then how many rules passed and which could not be checked."""
    waived = verdict.waived or {}
    for finding in verdict.findings:
        mark = " (waived: " + waived[finding.code] + ")" if finding.code in waived else ""
        show(f"{finding.severity} {finding.code} {finding.name}{mark}", _STYLES[finding.severity])
        show_part("  observed: ", finding.observed)
        if finding.rows:
            more = f" and {len(finding.rows) - _SHOWN_ROWS} more" if len(finding.rows) > _SHOWN_ROWS else ""
            show_part("  rows:     ", f"{', '.join(map(in_one_line, finding.rows[:_SHOWN_ROWS]))}{more}")
        show_part("  do:       ", finding.remedy)
    show(f"{counted(len(verdict.passed), 'rule')} passed, {len(verdict.findings)} found something.")
    for why, codes in by_reason(verdict.blind).items():
        show_part("could not be checked: ", f"{', '.join(codes)}: {why}")
    for why, codes in by_reason(skipped for skipped in verdict.not_checked if not skipped.applies).items():
        show_part("do not apply: ", f"{', '.join(codes)}: {why.removeprefix(DOES_NOT_APPLY)}")
