"""The checklist and the outputs over checkpoints of a whole campaign, and what was watched beside its task."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whole import Finished

ITEMS = [
    "raw rows", "format", "tokens", "mechanics", "baseline", "curves", "generations over checkpoints",
    "comparison with the base",
]  # fmt: skip


def test_before_anything_was_done_the_checklist_says_where_to_begin(tmp_path: Path) -> None:
    import whole

    place = whole.make(tmp_path / "fresh")
    answer = whole.testigo("checklist", str(place.file), "--json")

    assert answer.code == 0, answer.err
    assert answer.document["ok"] is False
    assert [item["name"] for item in answer.document["items"]] == ITEMS
    assert not any(item["done"] for item in answer.document["items"])
    assert not place.workspace.exists(), "looking makes nothing"


def test_after_a_campaign_each_item_says_what_is_there_and_how_to_see_it(finished: Finished) -> None:
    before = finished.place.events()
    items = {item["name"]: item for item in finished.place.testigo("checklist", "--json").document["items"]}

    assert list(items) == ITEMS
    for name in (
        "raw rows",
        "format",
        "mechanics",
        "baseline",
        "curves",
        "generations over checkpoints",
        "comparison with the base",
    ):
        assert items[name]["done"], name
    assert "36 train" in items["raw rows"]["there"]
    assert "completed: loss" in items["curves"]["there"]
    assert all(item["look"] and item["command"].startswith("testigo ") for item in items.values())
    assert finished.place.events() == before

    text = finished.place.testigo("checklist")
    assert "[x] 1. raw rows: 12 test, 36 train, 12 validation rows" in text.out


def test_outputs_to_the_fixed_prompts_are_shown_over_the_validations(finished: Finished) -> None:
    answer = finished.place.testigo("show", "--generations", "--json")

    assert answer.code == 0, answer.err
    (run,) = answer.document["runs"].values()
    updates = [validation["update"] for validation in run["validations"]]
    assert updates[0] == 0, "the base comes first"
    assert updates[-1] == len(finished.place.steps(finished.place.only_run))
    assert all(validation["prompts"] == 8 for validation in run["validations"])
    assert all(len(row["outputs"]) == len(updates) and row["target"] for row in run["rows"].values())

    text = finished.place.testigo("show", "--generations", "-n", "2")
    assert "update" in text.out
    assert "target" in text.out


def test_general_text_and_recall_are_measured_for_base_and_run(finished: Finished) -> None:
    run = finished.place.only_run / "predictions"
    (base,) = finished.place.workspace.glob("baseline/*/predictions")

    for folder in (run, base):
        measured = json.loads((folder / "beside.json").read_text())
        assert set(measured) == {"general", "train", "validation"}
    watched = json.loads((run / "validation.watched.json").read_text())
    assert {finding["code"][0] for finding in watched["findings"]} <= {"O"}
