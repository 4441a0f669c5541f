"""A single update in which the machine stood still."""

from __future__ import annotations

import numpy as np

from testigo.rules import CannotCheck, Finding, Passed, found, passed, rule
from testigo.watch.curve import Curve
from testigo.watch.robust import level


@rule("M111", "stall", "note", phase="training")
def machine_does_not_stand_still(
    curve: Curve, times: float = 20.0, seconds: float = 600.0, regular: int = 3
) -> Finding | Passed:
    """No update takes many times as long as the others.

    Why it matters: time that is paid for and not used: a machine that slept, a disk or network that hung, memory that
    was swapped. The next stall may be the last.

    What to do: not tested, likeliest first: see what else ran on the machine at that time; keep data and checkpoints on
    a local disk; lower `training.microbatch` when memory was nearly full.

    Source: twenty times the median of all updates, and ten minutes besides, so that compilation and checkpoints count
    for nothing; the first five updates are left out. Three or more at equal distances are checkpoints or validations
    of a trainer that counts them as part of an update, and no stall.
    """
    known = np.isfinite(curve.seconds) & (curve.seconds > 0)
    taken, updates = curve.seconds[known][5:], curve.updates[known][5:]
    if len(taken) < 10:
        raise CannotCheck("fewer than 15 updates with their seconds")
    usual = level(taken)
    long = np.flatnonzero(taken > max(times * usual, seconds))
    seen = f"median {usual:.3g} s an update, longest {float(taken.max()):.3g} s"
    if len(long) == 0:
        return passed(seen)
    distances = np.diff(updates[long])
    if len(long) >= regular and distances.max() <= 1.2 * distances.min():
        return passed(f"{seen}; {len(long)} long ones at equal distances")
    new = [int(at) for at in long if updates[at] > curve.since]
    if not new:
        return passed(seen)
    worst = max(new, key=lambda at: float(taken[at]))
    return found(f"update {int(updates[worst])} took {taken[worst]:.0f} s where {usual:.3g} s are usual")
