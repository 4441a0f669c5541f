"""The tiny campaign's material, read once, and ways to vary it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from testigo.inspection.material import Material, gather

if TYPE_CHECKING:
    from tiny import Tiny

Make = Callable[..., Material]


@pytest.fixture
def material_of(tiny: Tiny) -> Make:
    """The material of the tiny campaign with changes by dotted key."""

    def make(**changes: Any) -> Material:
        dotted = {key.replace("__", "."): value for key, value in changes.items()}
        return gather(tiny.campaign(dotted), tiny.corpus, tiny.base())

    return make


@pytest.fixture
def material(material_of: Make) -> Material:
    return material_of()
