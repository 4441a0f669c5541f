"""Fewer points of a long curve that still tell the same: peaks and gaps stay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

P = TypeVar("P", int, float)


def thinned(places: Sequence[P], values: Sequence[float | None], most: int = 500) -> tuple[list[P], list[float | None]]:
    """At most about so many points: the lowest and the highest of each stretch, each gap, the first and the last."""
    n = len(places)
    if n <= most:
        return list(places), list(values)
    width = -(-2 * n // most)
    kept = {0, n - 1}
    for start in range(0, n, width):
        stretch = values[start : start + width]
        known = [value for value in stretch if value is not None]
        if len(known) < len(stretch):
            kept.add(start + stretch.index(None))
        if known:
            kept.add(start + stretch.index(min(known)))
            kept.add(start + stretch.index(max(known)))
    chosen = sorted(kept)
    return [places[i] for i in chosen], [values[i] for i in chosen]


def smoothed(values: Sequence[float | None], weight: float) -> list[float | None]:
    """A moving average in which the past has this weight; like Adam's, it is not drawn to zero at its beginning.

    A gap stays a gap. Source: Kingma and Ba 2015 (arXiv 1412.6980), section 3, on the bias at the beginning.
    """
    if not weight:
        return list(values)
    made: list[float | None] = []
    mean, left = 0.0, 1.0
    for value in values:
        if value is None:
            made.append(None)
            continue
        mean = weight * mean + (1 - weight) * value
        left *= weight
        made.append(mean / (1 - left))
    return made
