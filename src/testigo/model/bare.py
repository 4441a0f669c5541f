"""The model that an adapter stands around."""

from __future__ import annotations

from typing import Any


def bare(model: Any) -> Any:
    """The model itself, of its own class; one without an adapter is given back as it is."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model
