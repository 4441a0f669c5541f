"""One update, validation, and how a run ends."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from tiny import gradients, made_row, relative_error, updates, validations

from testigo.disk import read_lines
from testigo.model.digest import weights_sha256
from testigo.training.loop import Session
from testigo.training.loss import split_loss
from testigo.training.progress import Progress

if TYPE_CHECKING:
    from tiny import Tiny

HEAD = tuple(range(20, 30))
CASE_C01 = [made_row(f"n{n}", (*HEAD, n), tuple(100 + (k * 7 + n) % 90 for k in range(n))) for n in (2, 3, 40, 41)]
CASE_C03 = [made_row(f"v{k}", (*HEAD, k), (100 + k,) * (100 if k == 5 else 1)) for k in range(6)]


def checkpoints(folder: Path) -> list[int]:
    return sorted(int(path.name) for path in (folder / "checkpoints").iterdir())


@pytest.mark.parametrize("layout", ["packed", "padded"])
def test_accumulation_is_one_batch_in_gradient_and_loss(tiny: Tiny, tmp_path: Path, layout: str) -> None:
    made: list[tuple[float, dict[str, float], dict[str, torch.Tensor]]] = []
    for microbatch, accumulation in ((4, 1), (1, 4), (2, 2)):
        changes = {
            "encoding.layout": layout,
            "training.microbatch": microbatch,
            "training.accumulation": accumulation,
            "model.adapter": {"method": "full"},
        }
        run = replace(tiny.session(tmp_path, changes), rows=CASE_C01)
        run.order = replace(run.order, n_rows=4)
        packs = run.packs_of(1)
        # packs hold as many tokens as the longest rows of a microbatch: short rows need fewer packs
        assert len(packs) == accumulation if layout == "padded" else len(packs) <= accumulation
        assert sorted(name for pack in packs for name in pack.row_ids) == [
            row.id for row in sorted(CASE_C01, key=lambda r: r.id)
        ]
        run.model.train()
        loss, by_row = run.backward(packs, update=1)
        made.append((loss, by_row, gradients(run.model)))
    (loss, by_row, whole), *others = made
    assert loss == pytest.approx(sum(by_row[row.id] * row.n_supervised for row in CASE_C01) / 86, rel=1e-6)
    for other_loss, other_by_row, gradient in others:
        assert other_loss == pytest.approx(loss, rel=1e-6)
        assert other_by_row == pytest.approx(by_row, rel=1e-6)
        assert relative_error(gradient, whole) < 1e-6


# C03
@pytest.mark.parametrize("layout", ["packed", "padded"])
def test_the_validation_loss_is_weighted_by_tokens_whatever_the_batch(tiny: Tiny, tmp_path: Path, layout: str) -> None:
    losses = []
    for size in (1, 2, 6):
        changes = {"encoding.layout": layout, "evaluation.batch_size": size}
        run = replace(tiny.session(tmp_path, changes), validation_rows=CASE_C03)
        line = run.validate()
        assert line["validation_tokens"] == 105
        losses.append(line["validation_loss"])
    assert losses == pytest.approx([losses[0]] * 3, rel=1e-6)
    alone = split_loss(run.model, [run.lay_out([row]) for row in CASE_C03])
    assert losses[0] == pytest.approx(sum(alone.rows[r.id] * r.n_supervised for r in CASE_C03) / 105, rel=1e-6)
    assert abs(losses[0] - sum(alone.rows.values()) / 6) > 1e-3  # a mean of means would be another number


def test_validation_leaves_mode_weights_and_random_state_alone(tiny: Tiny, tmp_path: Path) -> None:
    run = tiny.session(tmp_path, {"model.adapter.dropout": 0.5})
    run.model.train()
    before, state = weights_sha256(dict(run.model.named_parameters())), torch.get_rng_state()
    first = run.validate()["validation_loss"]
    assert run.validate()["validation_loss"] == first  # no dropout in it
    assert run.model.training
    assert weights_sha256(dict(run.model.named_parameters())) == before
    assert torch.equal(torch.get_rng_state(), state)


# C04
def test_a_loss_that_is_no_number_ends_the_run_and_nothing_after_it_can_be_chosen(tiny: Tiny, tmp_path: Path) -> None:
    run = tiny.session(tmp_path, {"training.validate_every": 1, "training.checkpoint": {"every": 1, "keep": 9}})

    def poison() -> bool:
        if run.progress.update == 2 and not run.progress.owes_validation:
            with torch.no_grad():
                run.model.get_input_embeddings().weight[5:300] = math.nan
        return False

    run.stop_requested = poison
    outcome = run.run()
    assert outcome.state == "diverged"
    assert "update 3" in outcome.cause
    assert run.progress.update == 3
    assert checkpoints(tmp_path) == [1, 2]
    assert [math.isnan(float(line["loss"])) for line in updates(tmp_path)] == [False, False, True]
    assert len(validations(tmp_path)) == 2
    assert run.progress.best_update in (1, 2)
    assert "T101" in {line["code"] for line in read_lines(tmp_path / "findings.jsonl")}


def test_a_step_that_is_not_finite_leaves_the_weights_untouched(tiny: Tiny, tmp_path: Path) -> None:
    run = tiny.session(tmp_path)
    before = weights_sha256(run.parameters)
    with torch.no_grad():
        run.model.get_input_embeddings().weight[5:300] = math.nan
    assert math.isnan(run.step(1)["loss"])
    assert weights_sha256(run.parameters) == before


def fp16(tiny: Tiny, folder: Path, scale: float, **changes: Any) -> Session:
    run = tiny.session(folder, {"model.precision": "fp16", **changes})
    run.scaler = torch.amp.GradScaler("cpu", init_scale=scale)
    return run


def test_an_overflow_that_the_scaler_skipped_is_no_divergence_on_a_cpu(tiny: Tiny, tmp_path: Path) -> None:
    run = fp16(tiny, tmp_path, 2.0**22, **{"training.updates": 12})
    assert run.run().state == "completed"
    skipped = [line["skipped"] for line in updates(tmp_path)]
    assert skipped[0]
    assert sum(skipped) < 10
    assert all(math.isfinite(float(line["loss"])) for line in updates(tmp_path))
    norms = [float(line["gradient_norm"]) for line in updates(tmp_path)]
    assert [math.isfinite(norm) for norm in norms] == [not skip for skip in skipped]


def test_an_update_that_was_skipped_moves_nothing(tiny: Tiny, tmp_path: Path) -> None:
    run = fp16(tiny, tmp_path, 2.0**30)
    before = weights_sha256(run.parameters)
    assert run.step(1)["skipped"]
    assert weights_sha256(run.parameters) == before


def test_overflow_after_overflow_is_a_divergence_on_a_cpu(tiny: Tiny, tmp_path: Path) -> None:
    run = fp16(tiny, tmp_path, 2.0**100, **{"training.updates": 40})
    assert run.run().state == "diverged"
    assert run.progress.update <= 20


def test_weights_that_are_not_finite_diverge_under_a_scaler_too(tiny: Tiny, tmp_path: Path) -> None:
    run = fp16(tiny, tmp_path, 2.0**10)
    with torch.no_grad():
        next(iter(run.parameters.values())).fill_(math.inf)
    assert run.run().state == "diverged"
    assert run.progress.update == 1


def test_bf16_trains_an_adapter_in_fp32_on_a_base_in_bf16(tiny: Tiny, tmp_path: Path) -> None:
    run = tiny.session(tmp_path, {"model.precision": "bf16", "training.updates": 8})
    assert run.run().state == "completed"
    losses = [line["loss"] for line in updates(tmp_path)]
    assert losses[-1] < losses[0]
    assert not any(line["skipped"] for line in updates(tmp_path))
    assert {p.dtype for p in run.parameters.values()} == {torch.float32}


def test_activation_checkpointing_gives_the_same_gradients(tiny: Tiny, tmp_path: Path) -> None:
    made = []
    for on in (False, True):
        changes = {"training.activation_checkpointing": on, "model.adapter.dropout": 0.1}
        run = tiny.session(tmp_path, changes)
        run.model.train()
        assert run.model.get_base_model().is_activation_checkpointing == on
        run.backward(run.packs_of(1), update=1)
        made.append(gradients(run.model))
    assert len(made[0]) == len(run.parameters)
    assert relative_error(made[1], made[0]) < 1e-6


def test_the_watch_changes_no_bit_of_the_training(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = {"training.updates": 12, "model.adapter.dropout": 0.1}
    with_watch = tiny.session(tmp_path / "with", changes)
    with_watch.run()
    monkeypatch.setattr("testigo.watch.Watcher.feed", lambda _self, _line: ())
    without = tiny.session(tmp_path / "without", changes)
    without.run()
    assert [u["loss"] for u in updates(tmp_path / "with")] == [u["loss"] for u in updates(tmp_path / "without")]
    assert weights_sha256(with_watch.parameters) == weights_sha256(without.parameters)


def test_rows_that_meet_twice_in_an_update_are_counted_twice(tiny: Tiny, tmp_path: Path) -> None:
    run = tiny.session(tmp_path, {"training.microbatch": 5}, rows=tiny_rows(tiny, 3))
    line = run.step(1)
    assert line["examples"] == len(line["rows"]) == 10
    assert set(line["rows"]) == set(line["row_losses"]) == set(tiny_rows(tiny, 3))
    assert run.progress.examples == 10
    assert line["supervised_tokens"] == sum(run.rows[k].n_supervised for k in run.order.rows_of(1))


def tiny_rows(tiny: Tiny, n: int) -> tuple[str, ...]:
    return tuple(row.id for row in tiny.corpus.rows("train")[:n])


def test_each_update_tells_what_it_did(tiny: Tiny, tmp_path: Path) -> None:
    run = tiny.session(tmp_path, {"training.schedule": {"kind": "linear", "warmup": 0.0}, "training.clip": 0.5})
    run.run()
    lines = updates(tmp_path)
    assert [line["update"] for line in lines] == [1, 2, 3, 4, 5, 6]
    assert [line["learning_rate"] for line in lines] == [run.learning_rate(u) for u in range(1, 7)]
    assert lines[0]["learning_rate"] == 0.01
    assert [line["clipped"] for line in lines] == [line["gradient_norm"] > 0.5 for line in lines]
    assert [line["epoch"] for line in lines] == [4 * u / 36 for u in range(1, 7)]
    for line in lines:
        weighted = sum(line["row_losses"][r.id] * r.n_supervised for r in run.rows if r.id in line["rows"])
        assert line["loss"] == pytest.approx(weighted / line["supervised_tokens"], rel=1e-6)
    assert [line["update"] for line in validations(tmp_path)] == [3, 6]


@pytest.mark.parametrize(
    ("series", "patience", "stops_at"),
    [
        ([5, 4, 4.1, 3.9, 4.0, 3.8], 2, None),
        ([5, 4, 4.1, 4.2, 3.0], 2, 4),
        ([5, 5, 5, 5], 3, 4),
        ([3, 4, 5], 3, None),
    ],
)
def test_patience_counts_validations_in_a_row_without_a_new_best(
    series: list[float], patience: int, stops_at: int | None
) -> None:  # C33
    progress = Progress()
    ended = None
    for update, loss in enumerate(series, 1):
        progress.update = update
        progress.weigh(loss)
        if ended is None and progress.worse_validations >= patience:
            ended = update
    assert ended == stops_at
    if ended is None:
        assert progress.best_loss == min(series)


STANDSTILL = {
    "training.learning_rate": 1e-30,
    "training.updates": 9,
    "training.validate_every": 1,
    "training.stop": {"metric": "validation_loss", "patience": 3},
}


def stops_after(run: Session, update: int) -> Callable[[], bool]:
    return lambda: run.progress.update == update and not run.progress.owes_validation


def test_patience_is_counted_over_a_resume(tiny: Tiny, tmp_path: Path) -> None:  # C33
    run = tiny.session(tmp_path, STANDSTILL)
    run.stop_requested = stops_after(run, 3)
    assert run.run().state == "interrupted"
    assert run.progress.worse_validations == 2
    again = tiny.session(tmp_path, STANDSTILL)
    again.resume(2)
    outcome = again.run()
    assert outcome.state == "stopped-early"
    assert again.progress.update == 4
    assert len(updates(tmp_path)) == len(validations(tmp_path)) == 4
    assert checkpoints(tmp_path)[-1] == 4
    once_more = tiny.session(tmp_path, STANDSTILL)
    once_more.resume(3)
    assert once_more.run() == outcome


def test_patience_that_ends_with_the_plan_is_a_plan_that_was_done(tiny: Tiny, tmp_path: Path) -> None:
    changes = {**STANDSTILL, "training.updates": 4}
    run = tiny.session(tmp_path, changes)
    outcome = run.run()
    assert outcome.state == "completed"
    again = tiny.session(tmp_path, changes)
    again.resume(2)
    assert again.run() == outcome


def test_a_stop_before_the_first_update_goes_on_from_nothing(tiny: Tiny, tmp_path: Path) -> None:
    straight = tiny.session(tmp_path / "straight")
    straight.run()
    run = tiny.session(tmp_path / "stopped")
    run.stop_requested = lambda: True
    assert run.run().state == "interrupted"
    state = json.loads((tmp_path / "stopped" / "checkpoints" / "000000" / "state.json").read_text())
    assert state["update"] == 0
    again = tiny.session(tmp_path / "stopped")
    again.resume(2)
    again.run()
    assert weights_sha256(again.parameters) == weights_sha256(straight.parameters)


RECORDED = {"training.updates": 8, "training.checkpoint": {"every": 3, "keep": 3}, "training.validate_every": None}


def stopped_at(tiny: Tiny, folder: Path, update: int) -> None:
    """A run that was killed after an update: its journal is there, its newest checkpoint is older."""
    run = tiny.session(folder, RECORDED)
    run.stop_requested = lambda: run.progress.update == update
    assert run.run().state == "interrupted"
    shutil.rmtree(folder / "checkpoints" / f"{update:06d}")


def test_the_first_update_that_is_made_again_is_held_against_the_record(tiny: Tiny, tmp_path: Path) -> None:
    stopped_at(tiny, tmp_path, 5)
    again = tiny.session(tmp_path, RECORDED)
    again.resume(2)
    assert sorted(again.recorded) == [4, 5]
    assert again.run().state == "completed"
    assert not (tmp_path / "findings.jsonl").exists() or "R109" not in (tmp_path / "findings.jsonl").read_text()


@pytest.mark.parametrize("change", [{"loss": 1.5}, {"rows": ["r00", "r01", "r02", "r03"]}])
def test_a_run_that_goes_on_as_another_is_invalid(tiny: Tiny, tmp_path: Path, change: dict[str, Any]) -> None:
    stopped_at(tiny, tmp_path, 5)
    path = tmp_path / "steps.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(line | (change if line["update"] == 4 else {})) + "\n" for line in lines))
    again = tiny.session(tmp_path, RECORDED)
    again.resume(2)
    outcome = again.run()
    assert outcome.state == "invalid"
    assert outcome.cause.startswith("R109 repeated-update-differs: update 4 ")
