"""The prediction against what torch's own CPU allocator reports while the real loop trains, generates and exports."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.profiler import ProfilerActivity, profile
from transformers import AutoModelForCausalLM

from testigo.campaign import Campaign
from testigo.encoding import lay_out
from testigo.evaluation.decode import decode_all
from testigo.model import reproduction
from testigo.model.adapter import attach
from testigo.model.load import dtype_of
from testigo.sizing.lengths import Inputs, RowLength, RowLengths, worst
from testigo.sizing.rehearse import rehearse
from testigo.training.loop import Session
from testigo.training.order import Order

CASES: list[tuple[str, dict[str, Any]]] = [
    ("llama", {"method": "lora", "microbatch": 3}),
    ("llama", {"method": "lora", "activation_checkpointing": True, "accumulation": 3}),
    ("llama", {"method": "full", "accumulation": 2}),
    ("llama", {"method": "full", "activation_checkpointing": True, "layout": "padded"}),
    ("llama", {"method": "lora", "precision": "bf16", "accumulation": 2}),
    ("gpt2", {"method": "lora", "accumulation": 2}),
    ("gpt2", {"method": "lora", "activation_checkpointing": True}),
    ("gpt2", {"method": "full", "layout": "padded", "accumulation": 2}),
    ("gpt2", {"method": "full", "activation_checkpointing": True}),
    ("qwen2", {"method": "lora", "layout": "padded"}),
    ("qwen2", {"method": "lora", "activation_checkpointing": True, "accumulation": 2}),
    ("qwen2", {"method": "full", "microbatch": 4}),
    ("qwen2", {"method": "full", "activation_checkpointing": True, "precision": "bf16"}),
]
LENGTHS = RowLengths(
    train=tuple(RowLength(40 + 5 * n, 70 + 9 * n) for n in range(6)),
    validation=tuple(RowLength(50 + 7 * n, 80 + 8 * n) for n in range(4)),
    n_shared=25,
)


@dataclass
class Allocator:
    """Bytes that the CPU allocator holds: what was there before, and every change that the profiler saw."""

    level: int

    def peak_of(self, work: Callable[[], object]) -> int:
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
            work()
        events = profiled.profiler.kineto_results.events()  # type: ignore[union-attr]
        changes = sorted((event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]")
        peak = self.level
        for _, n_bytes in changes:
            self.level += n_bytes
            peak = max(peak, self.level)
        return peak


def inputs_of(campaign: Campaign) -> Inputs:
    training = campaign.training
    return worst(LENGTHS, microbatch=training.microbatch, accumulation=training.accumulation, batch_size=3)


def real_model(campaign: Campaign, configuration: Any, *, seed: int = 0) -> tuple[Any, Allocator]:
    torch.manual_seed(seed)
    dtype = dtype_of(campaign.model.precision, full=campaign.model.adapter.method == "full")
    model = attach(AutoModelForCausalLM.from_config(configuration, dtype=dtype), campaign.model.adapter, seed=0)
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage() for t in (*model.parameters(), *model.buffers())}
    return model, Allocator(sum(storage.nbytes() for storage in storages.values()))


def measured(campaign: Campaign, configuration: Any, folder: Path) -> dict[str, int]:
    """Peaks of the real session: two updates and a validation."""
    model, allocator = real_model(campaign, configuration)
    training, inputs = campaign.training, inputs_of(campaign)
    if training.activation_checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model.train()
    rows = inputs.encoded([row for rows in inputs.microbatches for row in rows])
    session = Session(
        settings=campaign,
        seed=0,
        model=model,
        rows=rows,
        validation_rows=inputs.encoded(inputs.validation),
        order=Order(n_rows=len(rows), rows_per_update=len(rows), n_updates=2, seed=0),
        lay=lambda rows: lay_out(rows, campaign.encoding.layout, pad_id=0),
        device=torch.device("cpu"),
        folder=folder,
    )
    return {
        "update-1": allocator.peak_of(lambda: session.step(1)),
        "update-2": allocator.peak_of(lambda: session.step(2)),
        "validation": allocator.peak_of(session.validate),
    }


@pytest.fixture(scope="module")
def errors(
    campaign_on: Callable[..., Campaign], configurations: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, float]]:
    """Case and phase -> (predicted - measured) / measured."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    found = {}
    for name, settings in CASES:
        campaign = campaign_on(name, **settings)
        real = measured(campaign, configurations[name], tmp_path_factory.mktemp("run"))
        predicted = rehearse(
            campaign, configurations[name], inputs_of(campaign), parts=["train"], block_bytes=1, foreach=False
        )
        for phase, n_bytes in real.items():
            found[f"{name} {settings} {phase}"] = predicted[phase].n_bytes / n_bytes - 1
    yield found
    torch.set_num_threads(threads)


def test_half_of_all_predictions_are_within_three_percent(errors: dict[str, float]) -> None:
    assert len(errors) == 3 * len(CASES)
    assert statistics.median(map(abs, errors.values())) <= 0.03


def test_no_prediction_is_off_by_more_than_eight_percent_or_low_by_more_than_two(errors: dict[str, float]) -> None:
    assert {case: error for case, error in errors.items() if not -0.02 <= error <= 0.08} == {}


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_generation_and_export_take_what_the_real_ones_take(
    name: str, campaign_on: Callable[..., Campaign], configurations: dict[str, Any]
) -> None:
    campaign = campaign_on(name)
    inputs = inputs_of(campaign)
    predicted = rehearse(campaign, configurations[name], inputs, parts=["evaluate"], block_bytes=1)
    prompts = [row.ids[: row.n_prompt] for row in inputs.encoded(inputs.validation)]
    model, allocator = real_model(campaign, configurations[name])
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
