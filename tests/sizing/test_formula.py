"""An architecture that cannot be run without values gets the formula's answer, labelled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from memory import CONFIGURATIONS

from testigo.campaign import Campaign
from testigo.cli.size import print_sizing
from testigo.errors import ModelError
from testigo.sizing import RowLength, RowLengths, size
from testigo.sizing.formula import by_formula
from testigo.sizing.lengths import Meeting, worst
from testigo.sizing.rehearse import rehearse

LENGTHS = RowLengths((RowLength(60, 120),) * 4, (RowLength(60, 100),) * 3, 20)


@pytest.mark.parametrize(("method", "recompute"), [("lora", False), ("full", False), ("full", True)])
def test_the_formula_lies_near_the_model_where_both_are_known(
    method: str, recompute: bool, campaign_on: Callable[..., Campaign]
) -> None:
    campaign = campaign_on("llama", method=method, activation_checkpointing=recompute)
    inputs = worst(LENGTHS, Meeting(2, 1, 3))
    followed, counted = (
        run(campaign, CONFIGURATIONS["llama"], inputs)["backward"].n_bytes for run in (rehearse, by_formula)
    )
    assert 0.6 < counted / followed < 1.6


def test_an_architecture_that_looks_at_values_is_told_and_sized_by_formula(
    campaign_on: Callable[..., Campaign], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from transformers.models.llama.modeling_llama import LlamaModel

    forward = LlamaModel.forward

    def looking(self: Any, *arguments: Any, **named: Any) -> Any:
        if named["input_ids"].sum().item() > 3:
            return None
        return forward(self, *arguments, **named)

    monkeypatch.setattr(LlamaModel, "forward", looking)
    campaign = campaign_on("small")
    with pytest.raises(ModelError) as told:
        rehearse(campaign, CONFIGURATIONS["small"], worst(LENGTHS, Meeting(2, 1, 3)))
    assert "runs without values" in told.value.problems[0].expected
    sizing = size(campaign, gpu_bytes=1 << 30, lengths=LENGTHS)
    assert sizing.method == "formula"
    assert sizing.to_json()["why_formula"]
    assert "by formula" in sizing.notes[0]
    print_sizing(sizing)
    assert "BY FORMULA" in capsys.readouterr().out
