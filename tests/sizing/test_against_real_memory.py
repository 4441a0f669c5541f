"""The prediction against what torch's own CPU allocator reports while the real loop trains, generates and exports.

`benchmarks/sizing.py` goes through more cases of the same kind.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator

import pytest
import torch
from memory import CONFIGURATIONS, Case, errors_of, inputs_of, real_model

from testigo.campaign import Campaign
from testigo.evaluation.decode import decode_all
from testigo.model import reproduction
from testigo.sizing.rehearse import rehearse

CASES = (
    Case("llama", settings={"microbatch": 3}),
    Case("llama", settings={"activation_checkpointing": True, "accumulation": 3}),
    Case("llama", settings={"method": "full", "accumulation": 2}),
    Case("llama", rows="long", settings={"method": "full", "activation_checkpointing": True, "layout": "padded"}),
    Case("llama", settings={"precision": "bf16", "accumulation": 2}),
    Case("gpt2", settings={"accumulation": 2}),
    Case("gpt2", settings={"method": "full", "layout": "padded", "accumulation": 2}),
    Case("gpt2", settings={"method": "full", "activation_checkpointing": True}),
    Case("qwen2", settings={"layout": "padded"}),
    Case("qwen2", rows="long", settings={"activation_checkpointing": True, "accumulation": 2}),
    Case("qwen2", settings={"method": "full", "microbatch": 4}),
    Case("qwen2", settings={"method": "full", "activation_checkpointing": True, "precision": "bf16"}),
    Case("llama", rows="shared", settings={"microbatch": 1, "accumulation": 4}),
    Case("llama", rows="shared", settings={"method": "full", "accumulation": 2}),
    Case("gpt2", rows="shared", settings={"microbatch": 1, "accumulation": 4}),
    Case("gpt2", rows="shared", settings={"method": "full", "microbatch": 1, "accumulation": 4}),
    Case("bert", settings={"accumulation": 2}),
    Case("bert", rows="long", settings={"method": "full", "activation_checkpointing": True}),
    Case("vit", settings={"method": "full", "microbatch": 4}),
    Case("vit", settings={"activation_checkpointing": True, "microbatch": 4}),
)


@pytest.fixture(scope="module")
def errors(campaign_on: Callable[..., Campaign]) -> Iterator[dict[str, float]]:
    """Case and phase -> (predicted - measured) / measured."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    found = {}
    for case in CASES:
        for phase, error in errors_of(campaign_on(case.name, **case.settings), case).items():
            found[f"{case}: {phase}"] = error
    yield found
    torch.set_num_threads(threads)


def test_half_of_all_predictions_are_within_three_percent(errors: dict[str, float]) -> None:
    assert len(errors) == 3 * len(CASES)
    assert statistics.median(map(abs, errors.values())) <= 0.03


def test_no_prediction_is_off_by_more_than_eight_percent_or_low_by_more_than_two(errors: dict[str, float]) -> None:
    assert {case: error for case, error in errors.items() if not -0.02 <= error <= 0.08} == {}


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_generation_and_export_take_what_the_real_ones_take(name: str, campaign_on: Callable[..., Campaign]) -> None:
    campaign = campaign_on(name)
    inputs = inputs_of(campaign, name)
    predicted = rehearse(campaign, CONFIGURATIONS[name], inputs, parts=["evaluate"], block_bytes=1)
    prompts = [row.ids[: row.n_prompt] for row in inputs.encoded(inputs.validation)]
    model, allocator = real_model(campaign, name)
    model.eval()
    limit = campaign.evaluation.max_new_tokens
    with torch.inference_mode():
        generated = allocator.peak_of(
            lambda: decode_all(model, prompts, stop_ids=(), max_new_tokens=limit, batch_size=len(prompts))
        )
    longest = max(prompts, key=len)
    exported = allocator.peak_of(
        lambda: reproduction.record(model, {"row": longest}, stop_ids=(), max_new_tokens=limit)
    )
    assert predicted["evaluation"].n_bytes == pytest.approx(generated, rel=0.03)
    assert predicted["export"].n_bytes == pytest.approx(exported, rel=0.03)
