"""Noise floor, the base with examples, and what was forgotten: told beside the result, and weighed in the verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from testigo.dossier import read_record
from testigo.dossier.conclusion import badge
from testigo.dossier.language import LANGUAGES
from testigo.dossier.record import Record
from testigo.dossier.report import html

LOSS = {
    "metric": "general_loss", "within": 0.2, "verdict": "kept", "difference": 0.05, "low": 0.01, "high": 0.09,
    "task": "", "better": "lower", "before": 2.9, "after": 2.95,
}  # fmt: skip
TASK = {
    "metric": "accuracy", "within": 0.05, "verdict": "kept", "difference": -0.01, "low": -0.03, "high": 0.01,
    "task": "quiz", "better": "higher", "before": 0.8, "after": 0.79,
}  # fmt: skip
FLOOR = {"n": 84, "different": 2, "share": 2 / 84, "metrics": {"exact_match": {"changed": 1, "difference": 0.0119}}}
RIVAL = {
    "examples": 4,
    "metrics": {"exact_match": {"before": 0.2, "after": 0.45}},
    "control": {"exact_match": {"difference": 0.33, "low": 0.2, "high": 0.44}},
}


def record_with(told: Any, **statistics: Any) -> Record:
    record = read_record(told.workspace.dossier)
    assert record.comparison is not None
    changed = {**record.comparison.statistics, **statistics}
    return replace(record, comparison=replace(record.comparison, statistics=changed))


def test_nothing_is_said_where_nothing_was_measured(told: Any) -> None:
    assert "Beside the result" not in html(read_record(told.workspace.dossier))


def test_each_is_told_with_its_numbers_in_its_own_unit(told: Any) -> None:
    page = html(
        record_with(
            told, noise_floor=FLOOR, prompted_baseline=RIVAL, forgetting={"guards": [LOSS, TASK], "general": {}}
        )
    )
    assert "the base answered 84 rows twice, in other batches; 2 of the outputs differ (2.4 % of them)" in page
    assert "the base with 4 examples in its prompt has exact_match 45.0 %" in page
    assert "differs by +33.0 points (+20.0 to +44.0 points)" in page
    assert "loss of general text, nats per token" in page
    assert "+0.0500" in page
    assert "accuracy of quiz" in page
    assert "−5.0 points" in page


def test_general_text_without_a_guard_is_a_sentence(told: Any) -> None:
    general = {"control": {"before": 2.9, "after": 3.1, "difference": 0.2}}
    page = html(record_with(told, forgetting={"guards": [], "general": general}))
    assert "a loss of 2.90 nats per token before and 3.10 after (+0.200)" in page


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        ("kept", "Improvement shown"),
        ("broken", "Improved, but a guard is broken"),
        ("undecidable", "Improved, a guard is undecided"),
    ],
)
def test_a_guard_beside_the_task_weighs_as_one_of_its_own(told: Any, verdict: str, words: str) -> None:
    record = record_with(told, forgetting={"guards": [{**LOSS, "verdict": verdict}]})
    assert badge(record).words == words


def test_what_only_validation_measured_is_told_beside_the_test(told: Any) -> None:
    record = record_with(told, noise_floor=FLOOR)
    assert record.comparison is not None
    on_test = replace(
        record.comparison, split="test", statistics=read_record(told.workspace.dossier).comparison.statistics
    )  # type: ignore[union-attr]
    assert "Noise floor" in html(replace(record, comparison=on_test, on_validation=record.comparison))


@pytest.mark.parametrize("language", LANGUAGES[1:])
def test_it_is_told_in_every_language(told: Any, language: str) -> None:
    record = record_with(told, noise_floor=FLOOR, prompted_baseline=RIVAL, forgetting={"guards": [LOSS]})
    page = html(replace(record, plan=replace(record.plan, language=language)))
    for words in ("Noise floor", "A fair rival", "loss of general text", "Beside the result"):
        assert words not in page
