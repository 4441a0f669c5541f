"""The watch sees each update's own loss, says what is wrong, and changes nothing."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments

import testigo


class PoisonedAt(TrainerCallback):
    """Makes a weight NaN before update `at`, as a damaged batch or an overflow would."""

    def __init__(self, at: int) -> None:
        self.at = at

    def on_step_begin(self, args: Any, state: Any, control: Any, model: Any = None, **around: Any) -> None:
        if state.global_step == self.at - 1:
            with torch.no_grad():
                next(model.parameters())[0, 0] = math.nan


class StepsTheScheduleTwice(TrainerCallback):
    def on_step_end(self, args: Any, state: Any, control: Any, lr_scheduler: Any = None, **around: Any) -> None:
        lr_scheduler.step()


def full(shop: Any) -> Trainer:
    return shop.trainer(
        gradient_accumulation_steps=2, evaluation=shop.validation_rows(), eval_strategy="steps", eval_steps=2
    )


def with_dropout(shop: Any) -> Trainer:
    return shop.trainer(shop.gpt2(), max_steps=6, warmup_steps=2)


def with_lora(shop: Any) -> Trainer:
    return shop.trainer(shop.lora(shop.llama(), lora_dropout=0.1), activation_checkpointing=True)


def losses(trainer: Trainer) -> list[float]:
    return [
        entry[name]
        for entry in trainer.state.log_history
        for name in ("loss", "grad_norm", "eval_loss")
        if name in entry
    ]


@pytest.mark.parametrize("build", [full, with_dropout, with_lora], ids=lambda build: build.__name__)
def test_losses_with_and_without_the_watch_are_the_same_bit_for_bit(build: Callable[[Any], Trainer], shop: Any) -> None:
    torch.manual_seed(11)
    alone = build(shop)
    alone.train()
    torch.manual_seed(11)
    watched = build(shop)
    watched.add_callback(testigo.Watch())
    watched.train()

    assert losses(watched) == losses(alone)
    pairs = zip(watched.model.parameters(), alone.model.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
    assert {"training_step", "prediction_step", "_get_grad_norm"} & set(vars(watched)) == set()


def test_a_loss_that_the_trainer_hides_is_seen_at_its_update(shop: Any, caplog: pytest.LogCaptureFixture) -> None:
    watch = testigo.Watch()
    trainer = shop.trainer(max_steps=5)
    trainer.add_callback(PoisonedAt(3))
    trainer.add_callback(watch)
    with caplog.at_level(logging.WARNING, logger="testigo.watch"):
        trainer.train()

    shown = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert all(map(math.isfinite, shown)), "the Trainer hides it"
    assert (watch.findings[0][0], watch.findings[0][1].code) == (3, "T101")
    assert "T101 not-finite (stop): update 3" in caplog.text


def test_at_its_end_the_watch_says_what_could_not_be_judged_and_why(
    shop: Any, caplog: pytest.LogCaptureFixture
) -> None:
    watch = testigo.Watch()
    trainer = shop.trainer(max_steps=3)
    trainer.add_callback(watch)
    with caplog.at_level(logging.INFO, logger="testigo.watch"):
        trainer.train()

    assert {one.code: one.why for one in watch.not_checked}["T104"] == "fewer than 17 losses"
    assert "could not be checked, fewer than 17 losses: T104" in caplog.text


def test_stop_ends_the_training_at_that_update_and_saves_nothing_of_it(shop: Any) -> None:
    trainer = shop.trainer(max_steps=8, save_strategy="steps", save_steps=1, save_total_limit=8)
    trainer.add_callback(PoisonedAt(3))
    trainer.add_callback(testigo.Watch(stop=True))

    trainer.train()

    assert trainer.state.global_step == 3
    assert sorted(path.name for path in (shop.folder / "out").glob("checkpoint-*")) == ["checkpoint-1", "checkpoint-2"]


def test_a_batch_that_evaluation_leaves_out_is_seen(shop: Any) -> None:
    def healthy_then_empty(row: dict[str, Any], number: int) -> dict[str, Any]:
        return row if number < 8 else {"labels": [-100] * len(row["labels"])}

    rows = shop.validation_rows().map(healthy_then_empty, with_indices=True)
    watch = testigo.Watch()
    trainer = shop.trainer(evaluation=rows, eval_strategy="steps", eval_steps=2)
    trainer.add_callback(watch)
    trainer.train()

    shown = [entry["eval_loss"] for entry in trainer.state.log_history if "eval_loss" in entry]
    assert all(map(math.isfinite, shown)), "the Trainer leaves it out"
    assert "T117" in {finding.code for _, finding in watch.findings}


def test_a_schedule_that_runs_twice_as_fast_is_found(shop: Any) -> None:
    watch = testigo.Watch()
    trainer = shop.trainer(max_steps=6)
    trainer.add_callback(StepsTheScheduleTwice())
    trainer.add_callback(watch)
    trainer.train()

    assert "T113" in {finding.code for _, finding in watch.findings}


def test_a_learning_rate_far_too_high_is_found(shop: Any) -> None:
    watch = testigo.Watch()
    trainer = shop.trainer(max_steps=30, learning_rate=30.0, lr_scheduler_type="constant", logging_steps=10)
    trainer.add_callback(watch)
    trainer.train()

    assert {"T106", "T109"} & {finding.code for _, finding in watch.findings}


def classifier(folder: Path, **options: Any) -> Trainer:
    """Four classes of rows, each with tokens of its own."""
    torch.manual_seed(3)
    configuration = BertConfig(
        vocab_size=80, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64, num_labels=4
    )
    rows = [
        {"input_ids": [20 * (k % 4) + (k * j) % 20 for j in range(1, 9)], "labels": k % 4} for k in range(64)
    ]  # fmt: skip
    settings = TrainingArguments(
        output_dir=str(folder), max_steps=60, per_device_train_batch_size=8, use_cpu=True, report_to=[], seed=3,
        save_strategy="no", disable_tqdm=True, lr_scheduler_type="constant", **options,
    )  # fmt: skip
    return Trainer(model=BertForSequenceClassification(configuration), args=settings, train_dataset=rows)


def test_a_classifier_that_is_worse_than_guessing_among_its_classes_is_stopped(tmp_path: Path) -> None:
    watch, trainer = testigo.Watch(stop=True), classifier(tmp_path, learning_rate=3.0)
    trainer.add_callback(watch)
    trainer.train()

    found = {finding.code: finding.observed for _, finding in watch.findings}
    assert "guessing has ln(V) = 1.386" in found["T106"]
    assert trainer.state.global_step < 60  # updates as fast as these wait for each other, fifty at most


def test_a_classifier_that_learns_has_no_finding(tmp_path: Path) -> None:
    watch, trainer = testigo.Watch(stop=True), classifier(tmp_path, learning_rate=3e-3)
    trainer.add_callback(watch)
    trainer.train()

    assert [(update, finding.code) for update, finding in watch.findings] == []
    assert trainer.state.global_step == 60


@pytest.mark.parametrize("build", [full, with_dropout, with_lora], ids=lambda build: build.__name__)
def test_a_healthy_training_has_no_finding(build: Callable[[Any], Trainer], shop: Any) -> None:
    watch = testigo.Watch(stop=True)
    trainer = build(shop)
    trainer.args.max_steps = 40
    trainer.add_callback(watch)
    trainer.train()

    assert [(update, finding.code) for update, finding in watch.findings] == []
    assert trainer.state.global_step == 40


def test_the_watch_goes_on_after_a_resume(shop: Any) -> None:
    first = shop.trainer(max_steps=6, save_strategy="steps", save_steps=3)
    first.add_callback(testigo.Watch())
    first.train()
    whole = {name: p.detach().clone() for name, p in first.model.named_parameters()}
    watch = testigo.Watch()
    second = shop.trainer(max_steps=6, save_strategy="steps", save_steps=3)
    second.add_callback(watch)
    second.train(resume_from_checkpoint=str(shop.folder / "out" / "checkpoint-3"))

    assert watch.findings == []
    assert all(torch.equal(p, whole[name]) for name, p in second.model.named_parameters())


def test_a_fault_in_the_watch_does_not_end_the_training(
    shop: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from testigo.watch import Watcher

    def broken(self: Watcher, step: Any) -> tuple[()]:
        raise RuntimeError("broken")

    monkeypatch.setattr(Watcher, "feed", broken)
    trainer = shop.trainer()
    trainer.add_callback(testigo.Watch())
    trainer.train()

    assert trainer.state.global_step == 4
    assert "switched off" in caplog.text
