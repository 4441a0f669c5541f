"""A run that is cut anywhere, again and again, is the run that nobody disturbed: bit for bit."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from tiny import updates, validations

from testigo.disk import read_lines
from testigo.model.digest import weights_sha256
from testigo.training import checkpoint

if TYPE_CHECKING:
    from tiny import Tiny

    from testigo.training.loop import Session

DROPOUT = {"model.adapter.dropout": 0.2}
EPOCHS = {
    "training.epochs": 2.5,
    "training.microbatch": 1,
    "training.accumulation": 3,
    "training.validate_every": 2,
    "training.checkpoint": {"every": 2, "keep": 2},
}
N_ROWS = 8
"""Two and a half epochs of eight rows, three an update: every epoch ends within an update, the last update is short."""

SETUPS: dict[str, tuple[str, dict[str, Any]]] = {
    "dropout, accumulation, epochs that end within an update": ("tiny", {**EPOCHS, **DROPOUT}),
    "epochs that end with an update": (
        "tiny",
        {**EPOCHS, **DROPOUT, "training.accumulation": 2, "training.checkpoint": {"every": 4, "keep": 1}},
    ),
    "the whole model, padded": (
        "tiny",
        {**EPOCHS, "model.adapter": {"method": "full"}, "encoding.layout": "padded", "training.learning_rate": 1e-3},
    ),
    "activation checkpointing, patience": (
        "tiny",
        {
            **EPOCHS,
            **DROPOUT,
            "training.activation_checkpointing": True,
            "training.stop": {"metric": "validation_loss", "patience": 9},
        },
    ),
    "scaled losses in fp16": ("tiny", {**EPOCHS, **DROPOUT, "model.precision": "fp16"}),
    "augmented images": (
        "images",
        {
            **EPOCHS,
            **DROPOUT,
            "training.augment": {"flip": 0.5, "shift": 0.2, "rotate": 10, "brightness": 0.2},
        },
    ),
}


@dataclass
class Asked:
    """Somebody who asks to stop when a run has looked for it so often: between updates, in one, in a validation."""

    looks: int

    def __call__(self) -> bool:
        self.looks -= 1
        return self.looks < 0


@pytest.mark.parametrize(("kind", "changes"), SETUPS.values(), ids=SETUPS)
def test_a_run_cut_anywhere_again_and_again_is_the_run_that_nobody_disturbed(
    kind: str, changes: dict[str, Any], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    made: Tiny = request.getfixturevalue(kind)
    rows = tuple(row.id for row in made.corpus.rows("train")[:N_ROWS])

    def session(folder: str) -> Session:
        return made.session(tmp_path / folder, changes, rows=rows)

    whole = session("whole")
    assert whole.run().state == "completed"
    draw, n_cuts, state = random.Random(kind + repr(changes)), 0, ""
    while state != "completed":
        again = session("cut")
        again.resume(n_cuts + 1)
        torch.manual_seed(draw.randrange(2**32))  # a fresh process has another global state
        again.stop_requested = Asked(draw.randint(6, 22))
        state = again.run().state
        assert state in ("completed", "interrupted")
        n_cuts += state == "interrupted"
    assert n_cuts >= 2
    _are_the_same(whole, again)


def _are_the_same(one: Session, other: Session) -> None:
    clocks = ("seconds", "allocated_bytes", "reserved_bytes", "resident_bytes")
    for of in (updates, validations):
        lines = [[{k: v for k, v in line.items() if k not in clocks} for line in of(s.folder)] for s in (one, other)]
        assert lines[0] == lines[1]
    assert _samples(one) == _samples(other)
    assert weights_sha256(one.parameters) == weights_sha256(other.parameters)
    moments = [checkpoint.optimizer_tensors(s.parameters, s.optimizer) for s in (one, other)]
    assert moments[0].keys() == moments[1].keys()
    assert all(torch.equal(moments[0][name], moments[1][name]) for name in moments[0])
    assert one.scaler.state_dict() == other.scaler.state_dict()
    assert {**vars(one.progress), "seconds": 0} == {**vars(other.progress), "seconds": 0}
    names = [checkpoint.names_in(s.checkpoints)[-1] for s in (one, other)]
    assert names[0] == names[1]


def _samples(session: Session) -> list[dict[str, Any]]:
    return read_lines(session.folder / "samples.jsonl")


def asked_within(run: Session, what: str, update: int) -> Callable[[], bool]:
    """Who asks in the middle of an update, or of the validation after it."""
    looks = 0

    def asked() -> bool:
        nonlocal looks
        inside = run.progress.owes_validation if what == "validation" else not run.progress.owes_validation
        at = update if what == "validation" else update - 1
        looks += run.progress.update == at and inside
        return looks > 2

    return asked


@pytest.mark.parametrize("what", ["update", "validation"])
def test_a_stop_does_not_wait_for_the_end_of_an_update_or_of_a_validation(
    tiny: Tiny, tmp_path: Path, what: str
) -> None:
    changes = {
        "training.updates": 4,
        "training.accumulation": 4,
        "training.validate_every": 2,
        "training.microbatch": 1,
    }
    run = tiny.session(tmp_path, changes)
    run.stop_requested = asked_within(run, what, 2)
    assert run.run().state == "interrupted"
    done = 2 if what == "validation" else 1
    assert len(updates(tmp_path)) == done
    assert validations(tmp_path) == [], "a validation that was not finished is not told"
    found = checkpoint.read(run.checkpoints / f"{done:06d}")
    assert found.state["progress"]["owes_validation"] == (what == "validation")
    again = tiny.session(tmp_path, changes)
    again.resume(2)
    assert again.run().state == "completed"
    assert [line["update"] for line in validations(tmp_path)] == [2, 4]
    straight = tiny.session(tmp_path / "straight", changes)
    straight.run()
    _are_the_same(straight, again)


def test_the_first_look_at_the_base_is_left_too_when_somebody_asks(tiny: Tiny, tmp_path: Path) -> None:
    run = tiny.session(tmp_path)
    run.stop_requested = lambda: True
    assert run.run().state == "interrupted"
    assert _samples(run) == []
    again = tiny.session(tmp_path)
    again.resume(2)
    assert again.run().state == "completed"
    assert {line["update"] for line in _samples(again)} == {0, 3, 6}
