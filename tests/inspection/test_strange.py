"""What the base finds strange: measured by a worker, bounded, once, and equal to the loss that training would see."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from testigo.conductor import Lines
from testigo.inspection import choosing, strange
from testigo.training.loss import split_loss

if TYPE_CHECKING:
    from tiny import Tiny

    from testigo.inspection.material import Material


def test_losses_are_those_of_the_base_and_are_measured_once(material: Material, tiny: Tiny, tmp_path: Path) -> None:
    rows = material.rows("validation")
    few = strange.losses(material, "validation", rows, folder=tmp_path, reporter=Lines(), at_most=5)
    assert (len(few.tokens), few.of) == (5, len(rows))
    path = strange.losses_path(tmp_path, "validation")
    first = path.stat().st_mtime_ns
    again = strange.losses(material, "validation", rows, folder=tmp_path, reporter=Lines(), at_most=5)
    assert again == few
    assert path.stat().st_mtime_ns == first
    assert strange.kept(tmp_path, "validation", rows).tokens == few.tokens

    measured = [material.encoded(row) for row in rows if row.id in few.tokens]
    model = tiny.prepared().loaded.model  # its fresh adapter is the base's own function
    with model.disable_adapter() if hasattr(model, "disable_adapter") else _nothing():
        own = split_loss(model, [material.laid_out([row]) for row in measured])
    assert few.rows == pytest.approx(own.rows, abs=1e-3)

    strangest = choosing.strangest("validation", rows, few.rows, 2)
    assert [few.rows[one.row.id] for one in strangest] == sorted(few.rows.values(), reverse=True)[:2]


def _nothing() -> object:
    import contextlib

    return contextlib.nullcontext()
