"""The machine: speed that falls and memory that creeps."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from testigo.rules import CannotCheck, Finding, Passed, found, passed, rule
from testigo.watch.curve import Curve, Numbers
from testigo.watch.robust import level


@rule("M102", "throughput-falls", "warn", phase="training")
def throughput_holds(curve: Curve, share: float = 0.5, lately: int = 20, at_least: int = 60) -> Finding | Passed:
    """Tokens per second do not fall to half of what they were.

    Why it matters: the run takes twice the time that was planned and paid for: a throttled or shared device, a slow
    disk, or memory that is swapped.

    What to do: see what else runs on the machine and how hot it is; lower `training.microbatch` when memory is nearly
    full; write `training.checkpoint` less often.

    Source: medians of 20 updates against all before, so that single slow updates (checkpoints, validations) count for
    nothing; the first five are left out, since they compile and allocate.
    """
    known = np.isfinite(curve.tokens) & (curve.seconds > 0)
    rates = (curve.tokens[known] / curve.seconds[known])[5:]
    if len(rates) < at_least:
        raise CannotCheck(f"fewer than {at_least} updates with tokens and seconds")
    usual, now = level(rates[:-lately]), level(rates[-lately:])
    seen = f"{now:.0f} tokens/s over the last {lately} updates, {usual:.0f} before"
    return found(seen) if now < share * usual else passed(seen)


@rule("M103", "memory-creeps", "warn", phase="training")
def memory_holds(curve: Curve, share: float = 0.1, mebibytes: float = 64.0, at_least: int = 80) -> Finding | Passed:
    """Memory does not grow from update to update.

    Why it matters: memory that grows steadily runs out in the middle of the run.

    What to do: keep no tensor of an update beyond it (log numbers, not tensors); restart from the last checkpoint
    before memory ends, the run goes on where it was.

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
        steps = np.diff(floors)
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
