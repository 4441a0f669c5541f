"""One of several processes with sharded state, sized by a group that is not there."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch.distributed as dist
from memory import CONFIGURATIONS

from testigo.campaign import Campaign
from testigo.sizing.bench import changed
from testigo.sizing.lengths import Inputs, RowLength
from testigo.sizing.rehearse import rehearse
from testigo.sizing.tracker import Peak

INPUTS = Inputs(((RowLength(30, 50), RowLength(40, 70)),) * 2, (RowLength(40, 60), RowLength(50, 80)), n_shared=20)


@pytest.fixture(scope="module")
def peaks(campaign_on: Callable[..., Campaign]) -> dict[str, dict[str, Peak]]:
    """The training phases of full and LoRA campaigns, alone and with the state over four processes."""
    found = {}
    for method in ("full", "lora"):
        alone = campaign_on("llama", method=method, accumulation=2)
        four = changed(alone, {"machine.processes": 4, "machine.strategy": "fsdp"})
        for name, campaign in (("alone", alone), ("sharded", four)):
            found[f"{method} {name}"] = rehearse(
                campaign, CONFIGURATIONS["llama"], INPUTS, parts=["train"], block_bytes=1
            )
    return found


def test_weights_gradients_and_moments_are_a_quarter_each_with_full_training(peaks: dict[str, dict[str, Peak]]) -> None:
    alone, sharded = peaks["full alone"]["step"].by_kind, peaks["full sharded"]["step"].by_kind
    for kind in ("weights", "gradients", "optimizer_state"):
        assert sharded[kind] == pytest.approx(alone[kind] / 4, rel=0.001)


def test_an_adapter_stays_whole_while_its_base_is_sharded(peaks: dict[str, dict[str, Peak]]) -> None:
    alone, sharded = peaks["lora alone"]["step"].by_kind, peaks["lora sharded"]["step"].by_kind
    assert sharded["gradients"] == alone["gradients"]
    assert sharded["optimizer_state"] == alone["optimizer_state"]
    assert alone["gradients"] < sharded["weights"] < 0.4 * alone["weights"]


def test_what_is_gathered_for_a_block_is_told_as_exchange_and_gone_between_updates(
    peaks: dict[str, dict[str, Peak]],
) -> None:
    for method in ("full", "lora"):
        assert peaks[f"{method} sharded"]["backward"].by_kind["exchange"] > 0
        assert "exchange" not in peaks[f"{method} sharded"]["step"].by_kind
    assert not dist.is_initialized()


def test_a_checkpoint_of_shards_makes_one_tensor_whole_at_a_time(peaks: dict[str, dict[str, Peak]]) -> None:
    """Beside embedding, head and the norm before it, which stay gathered after a validation."""
    largest, norm = 2000 * 96 * 4, 96 * 4
    gathered = 2 * largest + norm
    assert peaks["full sharded"]["save"].by_kind["exchange"] == gathered + 2 * largest
    assert peaks["lora sharded"]["save"].by_kind["exchange"] == gathered, "an adapter is whole as it is"
