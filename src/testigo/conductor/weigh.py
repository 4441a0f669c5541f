"""The hypothesis weighed against what its rows can show, after the baseline and before any training."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from testigo.campaign import Campaign
from testigo.conductor.grounds import Grounds
from testigo.conductor.measure import asked_by
from testigo.disk import read_lines
from testigo.errors import GateFailed, Problem
from testigo.gates.decidable import HypothesisEvidence
from testigo.judgement.foresight import foresee, rows_for, rows_for_margin
from testigo.judgement.power import smallest_decidable_margin
from testigo.ledger import kinds
from testigo.pilot.verdict import judge_evidence
from testigo.rules import Verdict

CODES = ("V141", "V142", "V143")


def weigh(grounds: Grounds, baseline: Path) -> Verdict:
    """Judge whether the rows can decide what was registered, and record it.

    Raises
    ------
    GateFailed
        When the improvement cannot be reached by any model, and nobody waived it.
    """
    evidence = evidence_of(grounds.campaign, read_lines(baseline), dict(grounds.task.metrics))
    verdict = judge_evidence([evidence], grounds.campaign, phases=("hypothesis",), also=CODES)
    body: dict[str, Any] = {
        "metric": evidence.metric, "by": evidence.by, "chance": evidence.chance,
        "shown_from": _finite(evidence.shown_from), "detectable": _finite(evidence.detectable),
        "rows": evidence.n_rows, "units": evidence.n_units, "rows_needed": evidence.rows_needed,
        "guards": {name: list(one) for name, one in (evidence.guards or {}).items()},
        "findings": [f"{finding.code}: {finding.observed}" for finding in verdict.findings],
    }  # fmt: skip
    grounds.record(kinds.HYPOTHESIS_WEIGHED, body)
    for finding in verdict.findings:
        grounds.reporter.say(f"  {finding.severity} {finding.code} {finding.name}: {finding.observed}")
    if not verdict.ok:
        raise GateFailed(
            problems=[
                Problem(
                    expected=asked_by(one),
                    found=one.observed,
                    where=f"the hypothesis of {grounds.campaign.path.name}, held against the baseline's outputs",
                    action=f"{one.remedy} (testigo explain {one.code}; or waive it with a reason)",
                )
                for one in verdict.stops
            ]
        )
    return verdict


def evidence_of(
    campaign: Campaign, lines: Sequence[Mapping[str, Any]], metrics: Mapping[str, str]
) -> HypothesisEvidence:
    """What the baseline's lines foretell."""
    hypothesis, n = campaign.hypothesis, len(lines)
    improve, alpha = hypothesis.improve, hypothesis.alpha
    seen = foresee(lines, improve.metric, metrics[improve.metric], improve.by, alpha)
    groups = [str(line.get("group") or line["row"]) for line in lines]
    guards = {}
    for keep in hypothesis.keep:
        kind = metrics.get(keep.metric)
        if kind in ("binary", "bounded") and keep.within > 0:
            scores = [float(line["scores"][keep.metric]) for line in lines]
            least = smallest_decidable_margin(scores, kind, groups, alpha)
            guards[keep.metric] = (keep.within, least, rows_for_margin(n, least, keep.within, alpha))
    return HypothesisEvidence(
        metric=improve.metric,
        by=improve.by,
        room=seen.room,
        chance=seen.chance,
        shown_from=math.inf if seen.shown_from is None else seen.shown_from,
        detectable=math.inf if seen.detectable is None else seen.detectable,
        n_rows=n,
        n_units=seen.n_units,
        rows_needed=rows_for(n, seen.detectable, improve.by) or 0,
        guards=guards,
    )


def _finite(value: float | None) -> float | None:
    return None if value is None or math.isinf(value) else value
