"""The watch over a run that is over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from testigo.rules import Rule, Verdict, judge
from testigo.watch.curve import Curve
from testigo.watch.logs.log import Log
from testigo.watch.stream import Watcher

#: How often a long run is looked at on its way, at most.
LOOKS = 200
_ORDER = {"stop": 0, "warn": 1, "note": 2}


def diagnose(
    log: Log,
    rules: Iterable[Rule],
    *,
    limits: Mapping[str, Mapping[str, Any]] | None = None,
    vocabulary_size: int | None = None,
    base_loss: float | None = None,
) -> Verdict:
    """What the whole run shows, and what it showed on its way and no longer does at its end.

    Gravest findings first. A finding from the way tells at which update it was seen.
    """
    own = [rule for rule in rules if rule.evidence is Curve]
    about: dict[str, Any] = {"vocabulary_size": vocabulary_size or log.vocabulary_size, "base_loss": base_loss}
    about["planned_updates"] = max(log.updates, default=None)
    whole = judge(own, [log.curve(**about)], limits=limits)
    known = {finding.code for finding in whole.findings}
    watcher = Watcher(rules=own, limits=limits, **about)
    every = max(20, len(log.steps) // LOOKS)
    watcher.EVERY_UPDATES = (10, every, every, every) if every <= 20 else (every,) * 4
    watcher.JUDGES_EVENTS = False
    passing = {}
    for step in log.steps:
        for finding in watcher.feed(step):
            if finding.code not in known and finding.code not in passing:
                seen = f"{finding.observed}; this was so at update {int(step['update'])}, and is not so at the end"
                passing[finding.code] = replace(finding, observed=seen)
    findings = sorted((*whole.findings, *passing.values()), key=lambda f: (_ORDER[f.severity], f.code))
    return replace(
        whole,
        findings=tuple(findings),
        passed=tuple(one for one in whole.passed if one.code not in passing),
        not_checked=tuple(one for one in whole.not_checked if one.code not in passing),
    )
