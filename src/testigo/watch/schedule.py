"""The learning rate against its schedule."""

from __future__ import annotations

import numpy as np

from testigo.rules import CannotCheck, Finding, Passed, found, passed, rule
from testigo.watch.curve import Curve


@rule("T113", "learning-rate-off-schedule", "stop", phase="training")
def learning_rate_follows(curve: Curve, relative: float = 1e-6) -> Finding | Passed:
    """Each update has the learning rate of the schedule.

    Why it matters: another schedule is another experiment than the one that was registered; stepped twice as often, it
    ends at zero in the middle of the run.

    What to do: step the schedule once an update; after a resume go on at the update's number; compare with
    `training.schedule`.

    Source: the schedule is a function of the update's number. After skipped updates some trainers hold it back by as
    many, which is allowed here; 1e-6 allows fp32.
    """
    if curve.planned_learning_rates is None:
        raise CannotCheck("the planned learning rates are not known")
    planned = np.asarray(curve.planned_learning_rates, dtype=np.float64)
    known = np.isfinite(curve.learning_rates) & (curve.updates <= len(planned))
    if not known.any():
        raise CannotCheck("no learning rate was measured")
    place = curve.updates[known].astype(np.int64) - 1
    have, wanted = curve.learning_rates[known], planned[place]
    close = np.abs(have - wanted) <= relative * np.abs(wanted)
    if not close.all() and curve.skipped.any():
        held_back = curve.skipped.cumsum()[known]
        lowest = np.maximum(place - held_back, 0)
        close |= (have >= np.minimum(planned[place], planned[lowest]) * (1 - relative)) & (
            have <= np.maximum(planned[place], planned[lowest]) * (1 + relative)
        )
    off = np.flatnonzero(~close & (curve.updates[known] > curve.since))
    if len(off):
        at = int(off[0])
        seen = f"update {place[at] + 1} has learning rate {have[at]:.6g}, the schedule says {planned[place[at]]:.6g}"
        return found(f"{seen} ({len(off)} such updates)")
    return passed(f"{int(known.sum())} updates have the scheduled learning rate")
