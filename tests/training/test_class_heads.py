"""The loop before a class head: one normalisation, nothing from neighbours, images varied by seed, epoch and row."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from tiny import gradients, relative_error

from testigo.model.losses import supervised_logits
from testigo.training.loss import evaluating, split_loss
from testigo.training.order import Order

if TYPE_CHECKING:
    from tiny import Tiny

    from testigo.training.loop import Session

KINDS = ("bert", "llama", "vit", "resnet")


def session(kind: str, texts: Tiny, images: Tiny, folder: Path, changes: dict[str, Any] | None = None) -> Session:
    own = {"model.base": f"path:{kind}", "model.adapter": {"method": "full"}, **(changes or {})}
    return (images if kind in ("vit", "resnet") else texts).session(folder, own)


@pytest.mark.parametrize("kind", KINDS)
def test_accumulation_is_one_batch_in_gradient_and_loss(kind: str, texts: Tiny, images: Tiny, tmp_path: Path) -> None:
    made = []
    for microbatch, accumulation in ((6, 1), (1, 6), (4, 2)):
        run = session(kind, texts, images, tmp_path)
        training = run.settings.training.model_copy(update={"microbatch": microbatch})
        run = replace(run, rows=run.rows[:6], settings=run.settings.model_copy(update={"training": training}))
        run.order = replace(run.order, n_rows=6, rows_per_update=6)
        packs = run.packs_of(1)
        assert len(packs) == accumulation  # 4 × 2 is ragged: four rows, then two
        assert sum(pack.n_supervised for pack in packs) == 6
        run.model.train()
        loss, by_row = run.backward(packs, update=1) if kind == "resnet" else _without_dropout(run, packs)
        made.append((loss, by_row, gradients(run.model)))
    (loss, by_row, whole), *others = made
    assert loss == pytest.approx(sum(by_row.values()) / 6, rel=1e-6)
    for other_loss, other_by_row, gradient in others:
        assert other_loss == pytest.approx(loss, rel=1e-5)
        assert other_by_row == pytest.approx(by_row, rel=1e-4)
        assert relative_error(gradient, whole) < 1e-5


def _without_dropout(run: Session, packs: Any) -> tuple[float, dict[str, float]]:
    run.model.eval()
    return run.backward(packs, update=1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_in_a_batch_is_the_row_alone(kind: str, texts: Tiny, images: Tiny, tmp_path: Path) -> None:
    run = session(kind, texts, images, tmp_path)
    rows = sorted(run.rows, key=lambda row: row.n_tokens)[::6]
    with evaluating(run.model):
        together = supervised_logits(run.model, run.lay_out(rows))
        alone = torch.cat([supervised_logits(run.model, run.lay_out([row])) for row in rows])
    assert torch.allclose(together, alone, rtol=1e-4, atol=1e-5 * float(alone.abs().max()))
    assert together.shape == (len(rows), 3)


@pytest.mark.parametrize("kind", ["bert", "vit"])
def test_the_validation_loss_does_not_know_the_batch(kind: str, texts: Tiny, images: Tiny, tmp_path: Path) -> None:
    run = session(kind, texts, images, tmp_path)
    rows = run.validation_rows
    losses = [
        split_loss(run.model, [run.lay_out(rows[k : k + size]) for k in range(0, len(rows), size)]).nats_per_token
        for size in (1, 4, 5)
    ]
    assert losses == pytest.approx([losses[0]] * 3, rel=1e-6)


def test_batch_statistics_are_the_bases_own_in_training_too(images: Tiny, tmp_path: Path) -> None:
    run = session("resnet", images, images, tmp_path)
    before = {name: value.clone() for name, value in run.model.named_buffers()}
    run.model.train()
    run.step(1)
    assert before
    assert all(torch.equal(before[name], value) for name, value in run.model.named_buffers())


def test_training_images_are_varied_by_seed_epoch_and_row_alone(images: Tiny, tmp_path: Path) -> None:
    varied = {"training.augment": {"flip": 0.5, "shift": 0.2, "rotate": 10, "brightness": 0.2}}
    first, again = (images.session(tmp_path, varied) for _ in range(2))
    other = images.session(tmp_path, varied, seed=1)

    def pixels(run: Session, update: int) -> torch.Tensor:
        return torch.cat([pack.inputs["pixel_values"] for pack in run.packs_of(update)])

    one = pixels(first, 1)
    torch.manual_seed(5)
    torch.rand(3)
    assert torch.equal(one, pixels(again, 1)), "nothing is drawn from the global generator"
    row = first.rows[first.order.rows_of(1)[0]]
    seen = [first.lay_out([replace(row, variation=v)]).inputs["pixel_values"] for v in ((0, 0), (0, 1), (1, 0))]
    assert not torch.equal(seen[0], seen[1])
    assert not torch.equal(seen[0], seen[2])
    assert not torch.equal(pixels(other, 1), one)
    assert all(own.variation is None for own in (*first.rows, *first.validation_rows)), "validation never is"


def test_a_row_that_two_epochs_meet_in_one_update_is_seen_as_each_of_them() -> None:
    order = Order(n_rows=3, rows_per_update=4, n_updates=3, seed=0)
    for update in (1, 2, 3):
        epochs = order.epochs_of(update)
        assert sorted(row for row, own in epochs.items() for _ in own) == sorted(order.rows_of(update))
        assert all(own == sorted(own) for own in epochs.values())
    assert order.epochs_of(1)[order.rows_of(1)[3]][-1] == 1
