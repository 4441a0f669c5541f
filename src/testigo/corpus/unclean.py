"""Evaluation rows that have a copy, a near copy or an overlap among the training rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def unclean_rows(manifest: Mapping[str, Any], split: str) -> tuple[str, ...] | None:
    """Their ids in a split, from the corpus manifest's `duplicates.unclean`; None where nobody looked for them."""
    duplicates = manifest.get("duplicates")
    unclean = duplicates.get("unclean") if isinstance(duplicates, Mapping) else None
    if not isinstance(unclean, Mapping):
        return None
    return tuple(str(row) for row in unclean.get(split) or ())
