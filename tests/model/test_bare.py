"""The model that an adapter stands around."""

from __future__ import annotations

from typing import TYPE_CHECKING

from testigo.model.bare import bare

if TYPE_CHECKING:
    from tiny import Tiny


def test_the_model_is_the_same_one_with_and_without_an_adapter(tiny: Tiny) -> None:
    adapted = tiny.prepared().model
    assert bare(adapted) is adapted.get_base_model()
    assert bare(bare(adapted)) is bare(adapted)
