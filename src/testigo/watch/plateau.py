"""The loss never moved."""

from __future__ import annotations

import numpy as np

from testigo.rules import CannotCheck, Finding, Passed, found, passed, rule
from testigo.watch.curve import Curve
from testigo.watch.robust import level, spread


@rule("T111", "plateau", "warn", phase="training")
def loss_moves(curve: Curve, share: float = 0.04, at_least: int = 60, learned: float = 0.05) -> Finding | Passed:
    """The loss has fallen, beyond its noise, since warm-up.

    Why it matters: a loss that never moved from where it began means a learning rate too small, or parameters that do
    not reach the output. A curve that fell first and is flat now is not meant: it may be done.

    What to do: not tested, likeliest first: parameters that do not move, so see U101 and B103 in the pilot;
    `training.learning_rate` too low, so raise it threefold; `model.adapter.rank` too low; `training.schedule.warmup`
    too long.

    Source: an equivalence test (Schuirmann 1987): the slope's estimate over all updates and three standard errors
    (noise × sqrt(12/n) over the whole run) must stay below 4 % of fall, the estimate itself within two standard errors
    of none, and the last third not below the first five. At least 60 updates after warm-up, and a third of the planned
    run (120 updates where the plan is not known). A curve that leaves its level and comes back is no plateau.
    """
    taken = curve.taken
    losses, rates = curve.taken_losses, curve.learning_rates[taken]
    after = losses[_warm_up_end(curve, rates) :]
    planned = curve.n_planned
    early = len(after) < 2 * at_least if planned is None else len(curve) == 0 or curve.updates[-1] < planned / 3
    if len(after) < at_least or early:
        raise CannotCheck(f"{len(after)} losses since warm-up are too few to say")
    sigma = curve.loss_noise
    start, now = level(losses[:5]), level(losses[-max(20, len(losses) // 3) :])
    fall, error = curve.loss_fall
    if 3 * error > share * abs(start):
        raise CannotCheck(f"{len(losses)} losses are too noisy to see a fall of {share:.0%}")
    bound = fall + 3 * error
    fell = start - now > max(share * abs(start), 3 * 1.25 * sigma / np.sqrt(5))
    seen = f"loss {start:.3f} at first, {now:.3f} lately; fall at most {bound:.3f} over {len(losses)} losses"
    flat = -share * abs(start) - 3 * error < fall <= 2 * error and spread(losses) < 2 * sigma + share * abs(start)
    stuck = flat and bound < share * abs(start) and not fell and now > learned
    return found(seen) if stuck else passed(seen)


def _warm_up_end(curve: Curve, rates: np.ndarray[tuple[int], np.dtype[np.float64]]) -> int:
    """Index of the first update with (nearly) the highest learning rate that was planned or used."""
    known = rates[np.isfinite(rates)]
    if len(known) == 0:
        return 0
    planned = curve.planned_learning_rates
    highest = float(np.max(known if planned is None or len(planned) == 0 else planned))
    reached = np.flatnonzero(rates >= 0.99 * highest)
    return int(reached[0]) if len(reached) else len(rates)
