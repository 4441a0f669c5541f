"""Few layers speak for many only where that was proved."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from memory import CONFIGURATIONS
from transformers import Gemma3TextConfig

from testigo.campaign import Campaign
from testigo.sizing.layers import FEWEST_LAYERS, ByLayers, shallow
from testigo.sizing.lengths import Inputs, RowLength
from testigo.sizing.rehearse import rehearse
from testigo.sizing.tracker import Peak

INPUTS = Inputs(((RowLength(30, 50), RowLength(40, 70)),), (RowLength(40, 60),), n_shared=20)
LONGER = Inputs(((RowLength(130, 150), RowLength(140, 170)),), (RowLength(140, 160),), n_shared=0)


def run(campaign: Any, configuration: Any, inputs: Any) -> Mapping[str, Peak]:
    return rehearse(campaign, configuration, inputs, parts=["later"])


@pytest.fixture(scope="module")
def deep() -> Any:
    made = copy.deepcopy(CONFIGURATIONS["small"])
    made.num_hidden_layers = FEWEST_LAYERS
    return made


@pytest.mark.parametrize(("method", "recompute"), [("lora", True), ("full", False)])
def test_what_was_proved_on_the_whole_model_holds_for_other_inputs(
    method: str, recompute: bool, deep: Any, campaign_on: Callable[..., Campaign]
) -> None:
    campaign = campaign_on("small", method=method, activation_checkpointing=recompute)
    by_layers = ByLayers(deep, run)
    by_layers.prove(campaign, INPUTS, run(campaign, deep, INPUTS))
    assert by_layers.is_proved
    assert by_layers.surely(campaign, LONGER) == run(campaign, deep, LONGER)


def test_nothing_is_carried_on_that_the_whole_model_contradicts(
    deep: Any, campaign_on: Callable[..., Campaign]
) -> None:
    campaign = campaign_on("small")
    by_layers = ByLayers(deep, run)
    by_layers.prove(campaign, INPUTS, {"backward": Peak(1, {"weights": 1})})
    assert not by_layers.is_proved


def test_a_third_depth_that_lies_off_the_line_asks_the_whole_model() -> None:
    def bent(campaign: Any, configuration: Any, inputs: Any) -> Mapping[str, Peak]:
        n = configuration.num_hidden_layers
        return {"backward": Peak(max(100 + n, 30 * n), {"weights": max(100 + n, 30 * n)})}

    by_layers = ByLayers(copy.deepcopy(CONFIGURATIONS["llama"]), bent, is_proved=True)
    by_layers.configuration.num_hidden_layers = 12
    assert by_layers.peaks(None, None)["backward"].n_bytes < 360
    assert by_layers.surely(None, None)["backward"].n_bytes == 360


def test_layers_of_several_kinds_are_not_carried_on() -> None:
    assert shallow(Gemma3TextConfig(num_hidden_layers=12), 2) is None
