"""A single gradient far above all before it."""

from __future__ import annotations

import numpy as np

from testigo.rules import CannotCheck, Finding, Passed, found, passed, rule
from testigo.watch.curve import Curve


@rule("T124", "gradient-jumps", "note", phase="training")
def gradients_do_not_jump(curve: Curve, times: float = 10.0, at_least: int = 6, after: int = 20) -> Finding | Passed:
    """No gradient norm is many times as large as the largest of all before it.

    Why it matters: one update that pulls the weights as no other does; without clipping it may throw the model out of
    where it was, with clipping it is a usual step in an unusual direction.

    What to do: look at the rows of that update with `testigo show CAMPAIGN --row ID`; without clipping set
    `training.clip: 1.0`. Where the loss goes on as before, nothing more.

    Source: norms that scatter by a factor of e from batch to batch, which is much, do that in one run of a hundred. The
    first twenty updates do it in trainings that work, with a high learning rate. T108 tells gradients that stay large.
    """
    if len(curve.measured_norms) <= at_least:
        raise CannotCheck(f"fewer than {at_least + 1} gradient norms were measured")
    largest = curve.measured_norms.max()
    if largest <= times * curve.measured_norms[:at_least].max():
        return passed(f"the largest of {len(curve.measured_norms)} gradient norms is {largest:.3g}")
    known = np.isfinite(curve.gradient_norms) & (curve.gradient_norms > 0) & ~curve.skipped
    norms, updates = curve.gradient_norms[known], curve.updates[known]
    most = np.maximum.accumulate(norms)[:-1]
    jumps = [int(at) for at in np.flatnonzero(norms[1:] > times * most) + 1 if at >= at_least]
    new = [at for at in jumps if updates[at] > max(curve.since, after)]
    if not new:
        return passed(f"the largest of {len(norms)} gradient norms is {largest:.3g}")
    worst = max(new, key=lambda at: float(norms[at]))
    update = int(updates[worst])
    seen = f"update {update}: gradient norm {norms[worst]:.3g}, at most {most[worst - 1]:.3g} before"
    return found(seen, rows=curve.rows.get(update, ()))
