"""Memory that creeps."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from testigo.rules import CannotCheck, Finding, Passed, found, passed, rule
from testigo.watch.curve import Curve
from testigo.watch.robust import Numbers


@rule("M103", "memory-creeps", "warn", phase="training")
def memory_holds(curve: Curve, share: float = 0.1, mebibytes: float = 64.0, at_least: int = 80) -> Finding | Passed:
    """Memory does not grow from update to update.

    Why it matters: memory that grows steadily runs out in the middle of the run.

    What to do: not tested, likeliest first: something keeps tensors of an update beyond it (log numbers, not tensors).
    Restart from the last checkpoint before memory ends; the run goes on where it was.

    Source: the lowest values of four quarters of the run must rise each time, without slowing down, by 10 % and 64 MiB
    together. An allocator that fills up and stays does not do that.
    """
    creeping: list[str] = []
    seen: list[str] = []
    for name, values in (("resident", curve.resident_bytes), ("allocated", curve.allocated_bytes)):
        known = np.isfinite(values)
        if int(known.sum()) < at_least:
            continue
        floors = _floors(curve.updates[known], values[known])
        grown = floors[-1] - floors[0]
        text = f"{name} memory {floors[0] / 2**20:,.0f} MiB to {floors[-1] / 2**20:,.0f} MiB"
        steps = floors[1:] - floors[:-1]
        steady = bool((steps > 0).all() and steps[-1] >= 0.5 * steps.mean() and steps[0] <= 2 * steps.mean())
        (creeping if steady and grown > max(share * floors[0], mebibytes * 2**20) else seen).append(text)
    if creeping:
        return found(f"{'; '.join(creeping)} until update {int(curve.updates[-1])}, still growing")
    if not seen:
        raise CannotCheck(f"fewer than {at_least} updates with memory")
    return passed("; ".join(seen))


def _floors(updates: Numbers, values: Numbers) -> Numbers:
    """The lowest value of each of four equally long quarters, the first tenth of the run left out."""
    edges = np.searchsorted(updates, np.linspace(updates[0] + 0.1 * (updates[-1] - updates[0]), updates[-1] + 1, 5))
    return np.array([values[low:high].min() for low, high in pairwise(edges) if high > low])
