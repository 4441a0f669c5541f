"""What a merged model may differ by is the limit of rule X108, as the campaign sets it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from silent import Silent

from testigo.conductor.merging import _compared, refuse_unmergeable
from testigo.errors import VerificationFailed, WorkspaceError


def grounds(*, limits: Any = None, waive: Any = None, method: str = "lora") -> Any:
    campaign = SimpleNamespace(
        path=Path("campaign.yaml"),
        model=SimpleNamespace(precision="fp32", adapter=SimpleNamespace(method=method)),
        rules=SimpleNamespace(limits=limits or {}),
        waive=waive or {},
    )
    return SimpleNamespace(campaign=campaign, reporter=Silent())


def record(logit: float, **more: Any) -> dict[str, Any]:
    control = {"row": "r1", "prompt_ids": [1, 2], "output_ids": [3], "first_logits": [logit, 2.0]}
    return {"control_inputs": [control], "weights_sha256": "a" * 64, **more}


def test_a_merged_model_with_other_logits_is_refused_by_the_rules_own_words() -> None:
    with pytest.raises(VerificationFailed) as caught:
        _compared(grounds(), record(1.0), record(1.01))
    (problem,) = caught.value.problems
    assert problem.expected.startswith("X108 merged-differs to pass: Merged and unmerged give the same logits")
    assert "0.01 (at most 0.0001)" in problem.found
    assert "hand over the adapter unmerged" in problem.action


@pytest.mark.parametrize(
    ("adapter", "given"),
    [
        (record(1.0), grounds(limits={"X108": {"relative": 0.1}})),
        (record(1.0), grounds(waive={"X108": "served in half precision"})),
        (record(1.0, quantised={"bits": 4}), grounds()),
    ],
    ids=["another limit", "waived", "trained beside a base in few bits"],
)
def test_what_differs_is_told_where_the_campaign_allows_it(adapter: dict[str, Any], given: Any) -> None:
    told = _compared(given, adapter, record(1.01))
    assert told["merged_logits_apart"] == pytest.approx(0.01)
    assert told["merged_outputs_equal"] == 1


@pytest.mark.parametrize(
    ("method", "out", "action"),
    [("lora", None, "add --out DIR"), ("full", Path("out"), "export it without --merged: it is whole already")],
)
def test_what_cannot_be_merged_is_refused_before_anything_is_made(method: str, out: Path | None, action: str) -> None:
    with pytest.raises(WorkspaceError) as caught:
        refuse_unmergeable(grounds(method=method), out)
    assert caught.value.problems[0].action == action
