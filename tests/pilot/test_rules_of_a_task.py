"""Rules that have nothing to say about a task are not told as checks that could not be made."""

from __future__ import annotations

from pathlib import Path

import pytest

from testigo.campaign import load
from testigo.pilot.verdict import judge_evidence

EXAMPLES = Path(__file__).parents[2] / "examples"
BALANCE, HEAD, IMAGE = "D150", "F131", "F136"


@pytest.mark.parametrize(
    ("example", "asked"),
    [("orders", set()), ("tickets", {BALANCE, HEAD}), ("digits", {BALANCE, HEAD, IMAGE})],
)
def test_classes_heads_and_images_are_asked_about_where_there_are_any(example: str, asked: set[str]) -> None:
    campaign = load(EXAMPLES / example / "campaign.yaml")
    verdict = judge_evidence([], campaign)
    codes = {one.code for one in verdict.not_checked}
    assert codes & {BALANCE, HEAD, IMAGE} == asked
    assert "D101" in codes


def test_a_written_class_has_a_balance_and_no_head() -> None:
    campaign = load(EXAMPLES / "tickets" / "campaign.yaml")
    task = campaign.task.model_copy(update={"answer": "text"})
    verdict = judge_evidence([], campaign.model_copy(update={"task": task}))
    assert {one.code for one in verdict.not_checked} & {BALANCE, HEAD, IMAGE} == {BALANCE}
