"""Each gate rule fires on its fault, and is silent on healthy evidence and on the healthy twin of its fault."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from gate_cases import CASES
from healthy_evidence import GPU, HEALTHY, NAN

from testigo.gates import (
    BackwardEvidence,
    MemoryEvidence,
    UpdateEvidence,
    gate_rules,
)
from testigo.rules import CannotCheck, Finding, Passed, Rule, judge

RULES = {rule.code: rule for rule in gate_rules()}


def outcome(rule: Rule, changes: dict[str, Any]) -> Finding | Passed | CannotCheck:
    try:
        return rule(replace(HEALTHY[rule.evidence], **changes))
    except CannotCheck as reason:
        return reason


def test_every_gate_rule_has_its_cases() -> None:
    assert set(CASES) == set(RULES)


@pytest.mark.parametrize("code", CASES)
def test_the_rule_fires_on_its_fault(code: str) -> None:
    finding = outcome(RULES[code], CASES[code][0])

    assert isinstance(finding, Finding)
    assert (finding.code, finding.severity) == (code, RULES[code].severity)
    assert finding.observed
    assert finding.remedy


@pytest.mark.parametrize("code", CASES)
def test_the_rule_is_silent_on_the_healthy_twin(code: str) -> None:
    assert not isinstance(outcome(RULES[code], CASES[code][1]), Finding)


@pytest.mark.parametrize("code", sorted(set(CASES) - {"R106"}))
def test_the_rule_passes_healthy_evidence_and_says_what_it_saw(code: str) -> None:
    seen = outcome(RULES[code], {})

    assert isinstance(seen, Passed)
    assert seen.observed


@pytest.mark.parametrize("code", sorted(set(CASES) - {"M101"}))
def test_nothing_measured_cannot_be_checked(code: str) -> None:
    with pytest.raises(CannotCheck, match="not measured"):
        RULES[code](RULES[code].evidence())


@pytest.mark.parametrize("code", CASES)
def test_the_sick_case_is_sick_by_this_rule_and_its_kin_alone(code: str) -> None:
    """A fault is named by its own rule; others may join in only where the same numbers show it."""
    kin = {
        "D150": {"D154"},
        "D151": {"D152", "D154"},
        "D152": {"D154"},
        "E102": {"E104", "E105", "E107"},
        "E113": {"E115"},
        "E114": {"E115"},
        "F102": {"F103", "F108", "F109", "F110", "F107"},
        "F103": {"F108"},
        "F107": {"F103", "F108", "F109", "F110"},
        "F108": {"F103"},
        "F109": {"F103", "F108", "F110"},
        "F110": {"F103", "F108"},
        "F111": {"F103", "F108"},
        "B101": {"B102"},
        "U112": {"U106"},
        "U123": {"U124"},
        "B201": {"B202"},
        "U202": {"U201"},
    }
    evidence = [replace(HEALTHY[RULES[code].evidence], **CASES[code][0])]

    fired = {finding.code for finding in judge(RULES.values(), evidence).findings}

    assert code in fired
    assert fired - {code} <= kin.get(code, set())


def test_healthy_evidence_as_a_whole_has_no_finding_and_leaves_out_only_the_gpu_rule() -> None:
    verdict = judge(RULES.values(), HEALTHY.values())

    assert verdict.findings == ()
    assert [skipped.code for skipped in verdict.not_checked] == ["R106"]


def test_an_optimizer_of_before_the_adapter_is_named_as_such_and_nothing_advises_the_learning_rate() -> None:
    evidence = replace(HEALTHY[UpdateEvidence], in_optimizer=("q.weight",), moved=(), moved_first=())

    verdict = judge(RULES.values(), [evidence])

    assert [(finding.code, finding.name) for finding in verdict.findings] == [
        ("U101", "optimizer-holds-other-parameters")
    ]
    assert "no learning rate" in RULES["U101"].why
    assert "learning_rate" not in verdict.findings[0].remedy


def test_out_of_memory_names_phase_and_rows_and_keeps_the_examples_per_update() -> None:
    evidence = MemoryEvidence(phase="validation", failed=True, rows=("b",), tokens=473, message="no room")

    (finding,) = judge(RULES.values(), [evidence]).findings

    assert finding.rows == ("b",)
    assert "validation" in finding.observed
    assert "473 tokens" in finding.observed
    for setting in ("training.microbatch", "training.accumulation", "activation_checkpointing"):
        assert setting in finding.remedy
    assert "truncate" not in finding.remedy


def test_a_limit_of_the_campaign_replaces_the_default() -> None:
    evidence = [replace(HEALTHY[BackwardEvidence], accumulation_error=3e-4)]

    assert "B108" in {finding.code for finding in judge(RULES.values(), evidence).findings}
    assert judge(RULES.values(), evidence, limits={"B108": {"relative": 1e-3}}).findings == ()


def test_every_measured_error_of_nan_fails_its_rule() -> None:
    for code, rule in RULES.items():
        for field in fields(rule.evidence):
            if field.name.endswith(("_error", "_alone", "_twice", "_difference", "_neighbour")):
                seen = outcome(rule, {field.name: NAN} | (GPU if code == "R106" else {}))
                others = outcome(rule, {field.name: None} | (GPU if code == "R106" else {}))
                used = isinstance(others, CannotCheck)
                assert isinstance(seen, Finding) == (used and code != "R105"), (code, field.name)
