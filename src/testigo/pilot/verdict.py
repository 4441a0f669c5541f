"""The pilot's evidence, judged: what was found, what passed, what could not be checked. No torch is needed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from testigo.campaign import Campaign, ways_out
from testigo.campaign.metrics import CLASS_KINDS
from testigo.disk import write_atomically
from testigo.gates import BalanceEvidence, DataEvidence, MemoryEvidence, from_json, gate_rules
from testigo.gates.classes import ClassesEvidence
from testigo.gates.decidable import HypothesisEvidence
from testigo.gates.processes import ProcessesEvidence
from testigo.gates.resume import RepeatedUpdate
from testigo.gates.trainer import TrainerEvidence
from testigo.gates.trainer_resume import CheckpointEvidence
from testigo.pilot.applies import applying
from testigo.rules import Finding, Rule, Verdict, judge
from testigo.tasks import is_answered_by_head

# Rules name the phase of a campaign; the pilot's table splits some of them.
_ROWS_OF = {"update": ("update-1", "update-2"), "backward": ("gradients",)}
OUT_OF_MEMORY = "M101"
ALONE = " alone"
"""After the name of a phase that one process went through beside several."""
_OF_IMAGES = ("F135", "F136", "F137", "F138", "F139")
_ROW_OF_CODE = {"U121": "overfit", "U122": "overfit", "U123": "overfit", "U124": "overfit", "X108": "merge"}


def judge_pilot(folder: Path, campaign: Campaign) -> Verdict:
    """Judge `evidence.json`, write `findings.json`, and put each phase's verdict into `phases.json`."""
    evidence = from_json(json.loads((folder / "evidence.json").read_text(encoding="utf-8")))
    verdict = judge_evidence(evidence, campaign)
    phases = json.loads((folder / "phases.json").read_text(encoding="utf-8"))
    reached = [row for row in phases["phases"] if "seconds" in row]
    for row in reached:
        row["verdict"] = _verdict_of(row["phase"].removesuffix(ALONE), verdict)
    if any(isinstance(record, MemoryEvidence) and record.failed for record in evidence):
        reached[-1]["verdict"] = "failed"  # where memory ran out the pilot ended
    others = [phase for phase in phases["of"] if phase not in {row["phase"] for row in reached}]
    phases["phases"] = reached + [
        {"phase": phase, "inputs": "not reached", "verdict": "could not be checked"} for phase in others
    ]
    write_atomically(folder / "phases.json", json.dumps(phases, indent=1))
    write_atomically(folder / "findings.json", json.dumps(verdict_to_json(verdict), indent=1, ensure_ascii=False))
    return verdict


def judge_evidence(
    evidence: Iterable[object], campaign: Campaign, *, phases: tuple[str, ...] = (), also: tuple[str, ...] = ()
) -> Verdict:
    """All gate rules (or those of some phases, and some codes), the campaign's own too, with its limits and waivers."""
    every = gate_rules(tuple(campaign.folder / file for file in campaign.rules.files))
    asked_alone = [rule for rule in every if rule.evidence is HypothesisEvidence and rule.code in also]
    own = [*(rule for rule in every if _speaks_of(rule, campaign)), *asked_alone]
    asked = tuple(rule for rule in own if not phases or rule.phase in phases or rule.code in also)
    rules, not_applying = applying(asked, campaign)
    records = tuple(_promised(record, campaign) for record in evidence)
    verdict = judge(rules, records, limits=campaign.rules.limits, waivers=campaign.waive)
    verdict = replace(verdict, not_checked=(*verdict.not_checked, *not_applying))
    ran_out = next((record.phase for record in records if isinstance(record, MemoryEvidence) and record.failed), None)
    return verdict if ran_out is None else _with_ways_out(verdict, campaign, ran_out)


def _speaks_of(rule: Rule, campaign: Campaign) -> bool:
    """Whether a rule has anything to say about a campaign, however its pilot went.

    Rules about the hypothesis are judged after the baseline, before the pilot. Those about a Trainer and its
    checkpoints speak of what only a Trainer can do wrong, that about a repeated update of runs that go on, those about
    processes of campaigns that have several, those about classes, heads and images of tasks that have them. The others
    of such tasks that could not look are told.
    """
    if rule.evidence is BalanceEvidence:
        return campaign.task.kind in CLASS_KINDS
    if rule.evidence is ClassesEvidence:
        return is_answered_by_head(campaign) and (
            campaign.task.kind == "image-classification" or rule.code not in _OF_IMAGES
        )
    if rule.evidence is ProcessesEvidence:
        return campaign.machine.processes > 1
    if rule.evidence is HypothesisEvidence:
        return False
    return rule.evidence not in (TrainerEvidence, CheckpointEvidence, RepeatedUpdate)


def _promised(record: object, campaign: Campaign) -> object:
    """Evidence about rows, with what the campaign promises of them: no worker measures that."""
    if not isinstance(record, DataEvidence):
        return record
    hypothesis = campaign.hypothesis
    return replace(record, smallest_effect=hypothesis.improve.by, alpha=hypothesis.alpha)


def _with_ways_out(verdict: Verdict, campaign: Campaign, phase: str) -> Verdict:
    """Where memory ran out the remedy is written in the campaign's own numbers, ready to paste."""
    lines = [way.as_yaml(f"memory ran out in {phase}") for way in ways_out(campaign, phase)]
    if not lines:
        return verdict
    remedy = "\n".join(["set one of these in the file, or run it beside the control as a variant:", *lines])
    findings = (replace(f, remedy=remedy) if f.code == OUT_OF_MEMORY else f for f in verdict.findings)
    return replace(verdict, findings=tuple(findings))


def _verdict_of(phase: str, verdict: Verdict) -> str:
    own = [f for f in verdict.findings if phase in _rows_of(f)]
    if any(f in verdict.stops for f in own):
        return "failed"
    if any(f.severity == "stop" for f in own):
        return "waived"
    return "warned" if any(f.severity == "warn" for f in own) else "passed"


def _rows_of(finding: Finding) -> tuple[str, ...]:
    if finding.code in _ROW_OF_CODE:
        return (_ROW_OF_CODE[finding.code],)
    return _ROWS_OF.get(finding.phase, (finding.phase,))


def verdict_to_json(verdict: Verdict) -> dict[str, Any]:
    """The machine-readable form of `check`, `pilot` and `diagnose`."""
    return {
        "ok": verdict.ok,
        "findings": [asdict(f) for f in verdict.findings],
        "passed": [asdict(p) for p in verdict.passed],
        "not_checked": [asdict(n) for n in verdict.not_checked],
        "waived": dict(verdict.waived or {}),
    }
