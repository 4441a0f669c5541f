"""Trackers of a whole campaign: what they get at its end, and of runs that ended before they were declared."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from testigo.disk import read_lines

if TYPE_CHECKING:
    from whole import Place


@pytest.fixture
def tracked(place: Place) -> Place:
    place.change({"track": [{"mlflow": {"uri": "sqlite:///mlflow.db"}}, {"wandb": {"mode": "offline"}}]})
    answer = place.testigo("run", "--json")
    assert answer.code == 0, answer.err
    assert "trackers: wandb, mlflow get the adapter" in answer.err
    return place


def test_a_tracker_declared_after_the_runs_gets_their_curves_the_adapter_and_its_card(tracked: Place) -> None:
    lines = len(read_lines(tracked.only_run / "steps.jsonl"))
    state: dict[str, Any] = json.loads((tracked.only_run / "trackers.json").read_text(encoding="utf-8"))
    told = {"lines": lines, "dropped": 0, "error": ""}
    assert state["told"] == {"wandb": told, "mlflow": told}
    kept = {path.name for path in (tracked.folder / "mlartifacts").glob("*/artifacts/adapter/*")}
    assert {"adapter_model.safetensors", "adapter_config.json", "MODEL_CARD.md"} <= kept
    assert "testigo.json" not in kept, "its control inputs are rows"
    (history,) = tracked.only_run.glob("wandb/offline-run-*/*.wandb")
    assert b"adapter_model.safetensors" in history.read_bytes()

    again = tracked.testigo("run", "--json")
    assert again.code == 0
    assert "trackers:" not in again.err, "nothing is done twice"
    assert not list(tracked.only_run.glob(".for-trackers"))
