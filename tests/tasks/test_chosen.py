from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from testigo.campaign import METRICS, Campaign, load
from testigo.errors import CampaignError
from testigo.tasks import Chat, Classification, Extraction, Generation, ImageClassification, ToolCalling, task_for

ORDERS = Path(__file__).parents[2] / "examples" / "orders"


def changed(**task: Any) -> Campaign:
    campaign = load(ORDERS / "campaign.yaml")
    return campaign.model_copy(update={"task": campaign.task.model_copy(update=task)})


def test_the_example_is_an_extraction_whose_rows_have_no_problem() -> None:
    task = task_for(load(ORDERS / "campaign.yaml"))
    rows = [json.loads(line) for line in (ORDERS / "orders.jsonl").read_text(encoding="utf-8").splitlines()]
    assert task.name == "extraction"
    assert [row["id"] for row in rows if task.problems(row)] == []
    assert {task.score(row, task.target(row))["exact_match"] for row in rows} == {1.0}
    assert '{"type":"object","properties":{"quantity"' in task.messages(rows[0])[0]["content"]


def test_a_generation_takes_its_fields_from_the_campaign() -> None:
    assert task_for(changed(kind="generation", target="email")) == Generation("email", "email", changed().task.system)


def test_a_system_message_that_wants_a_schema_needs_one() -> None:
    with pytest.raises(CampaignError, match=r"task\.schema"):
        task_for(changed(schema_file=None))


def test_metrics_are_those_that_the_campaign_file_knows() -> None:
    kinds = (Extraction, Generation, Classification, ImageClassification, Chat, ToolCalling)
    assert {task.name: dict(task.metrics) for task in kinds} == METRICS


def test_chats_and_calls_take_their_fields_from_the_campaign() -> None:
    assert task_for(changed(kind="chat", input="said", target="said", system=None)) == Chat("said")
    calls = changed(kind="tool-calling", target="calls", tools="offered", system=None, order="kept")
    assert task_for(calls) == ToolCalling("email", "calls", "offered", None, "kept")
