"""trl.SFTTrainer: its own preparation of rows, its fused loss, its padding-free batches."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from datasets import Dataset

import testigo

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning", "ignore::DeprecationWarning")


def prompt_rows(shop: Any, n: int = 24) -> Dataset:
    """A prompt and a completion a row, in chat form."""
    rows = [
        {
            "prompt": [{"role": "user", "content": question}],
            "completion": [{"role": "assistant", "content": answer}],
        }
        for question, answer in shop.sentences(n)
    ]
    return Dataset.from_list(rows)


def sft(
    shop: Any, rows: Dataset, *, model: Any = None, peft_config: Any = None, tokenizer: Any = None, **more: Any
) -> Any:
    from trl import SFTConfig, SFTTrainer

    return SFTTrainer(
        model=model if model is not None else shop.llama(),
        args=SFTConfig(**shop.arguments(**{"max_length": 128, **more})),
        train_dataset=rows,
        processing_class=tokenizer or shop.tokenizer(),
        peft_config=peft_config,
    )


def codes(report: Any) -> set[str]:
    return {finding.code for finding in report.findings}


def alarms(report: Any) -> list[str]:
    return [finding.code for finding in report.findings if finding.severity != "note"]


@pytest.mark.parametrize("kind", ["prompts", "assistant only", "text", "lora", "accumulation"])
def test_healthy_ones_are_silent(kind: str, shop: Any) -> None:
    rows, more = prompt_rows(shop), {}
    if kind == "assistant only":
        rows = rows.map(lambda row: {"messages": row["prompt"] + row["completion"]}).select_columns(["messages"])
        more = {"assistant_only_loss": True}
    if kind == "text":
        rows = Dataset.from_dict({"text": [f"{question} {answer}" for question, answer in shop.sentences(24)]})
    if kind == "lora":
        from peft import LoraConfig

        more = {"peft_config": LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM")}
    if kind == "accumulation":
        more = {"gradient_accumulation_steps": 4}

    report = testigo.pilot(sft(shop, rows, **more))

    assert alarms(report) == [], report.table()
    assert not [one for one in report.not_checked if "could not be measured" in one.why], report.table()


def test_rows_whose_answer_lies_beyond_the_maximum_length_are_counted(shop: Any) -> None:
    short, long = sft(shop, prompt_rows(shop), max_length=22), sft(shop, prompt_rows(shop))

    sick, healthy = testigo.pilot(short), testigo.pilot(long)

    assert len(short.train_dataset) < 24
    assert "E114" in codes(sick), sick.table()
    lost = next(finding for finding in sick.findings if finding.code == "E114")
    assert len(lost.rows) == 24 - len(short.train_dataset)
    assert alarms(healthy) == []


def test_answers_that_are_cut_are_named(shop: Any) -> None:
    report = testigo.pilot(sft(shop, prompt_rows(shop), max_length=40))

    assert "E113" in codes(report), report.table()


def test_flattened_rows_that_see_their_neighbours_are_found(shop: Any) -> None:
    """Rows in one line are kept apart by their positions, but not where an attention mask says that all are one."""
    rows = prompt_rows(shop)
    apart = sft(shop, rows, padding_free=True, max_length=None)
    together = sft(shop, rows, padding_free=True, max_length=None)
    inner = together.data_collator

    def with_a_mask(items: Any) -> dict[str, Any]:
        batch = inner(items)
        kept = {name: batch[name] for name in ("input_ids", "labels", "position_ids")}
        return {**kept, "attention_mask": torch.ones_like(batch["input_ids"])}

    together.data_collator = with_a_mask

    assert "F106" not in codes(testigo.pilot(apart))
    assert "F106" in codes(testigo.pilot(together))


def test_a_training_after_the_pilot_is_the_training_without_it(shop: Any) -> None:
    results = []
    for with_pilot in (False, True):
        trainer = sft(shop, prompt_rows(shop), gradient_accumulation_steps=2)
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
        trainer, watch = sft(shop, prompt_rows(shop)), testigo.Watch()
        if watched:
            trainer.add_callback(watch)
        trainer.train()
        results.append([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])

    assert results[0] == results[1]
    assert watch.findings == []
