"""trl.SFTTrainer: its own preparation of rows, its fused loss, its padding-free batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import testigo

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning", "ignore::DeprecationWarning")


def accumulated(shop: Any) -> Any:
    return shop.sft(gradient_accumulation_steps=2)


def packed_with_checkpointing(shop: Any) -> Any:
    return shop.sft(packing=True, packing_strategy="bfd", max_length=64, activation_checkpointing=True)


def adapter_with_dropout(shop: Any) -> Any:
    from peft import LoraConfig

    settings = LoraConfig(r=4, lora_dropout=0.2, target_modules="all-linear", task_type="CAUSAL_LM")
    return shop.sft(peft_config=settings, evaluation=shop.prompt_rows(30).select(range(24, 30)), eval_strategy="steps",
                    eval_steps=2, padding_free=True, max_length=None)  # fmt: skip


@pytest.mark.parametrize(
    "build", [accumulated, packed_with_checkpointing, adapter_with_dropout], ids=lambda build: build.__name__
)
def test_a_training_after_the_pilot_is_the_training_without_it(build: Callable[[Any], Any], shop: Any) -> None:
    results = []
    for with_pilot in (False, True):
        torch.manual_seed(5)
        trainer = build(shop)
        if with_pilot:
            testigo.pilot(trainer)
        trainer.train()
        names = ("loss", "grad_norm", "mean_token_accuracy", "num_tokens", "entropy")
        logged = [entry[name] for entry in trainer.state.log_history for name in names if name in entry]
        results.append((logged, [p.detach().clone() for p in trainer.model.parameters()]))

    (alone, weights), (after, weights_after) = results
    assert after == alone
    assert all(torch.equal(a, b) for a, b in zip(weights_after, weights, strict=True))


def test_the_watch_changes_nothing_and_sees_the_loss(shop: Any) -> None:
    results = []
    for watched in (False, True):
        trainer, watch = shop.sft(), testigo.Watch()
        if watched:
            trainer.add_callback(watch)
        trainer.train()
        results.append([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])

    assert results[0] == results[1]
    assert watch.findings == []
