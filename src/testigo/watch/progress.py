"""Where the loss goes: away, up again, nowhere, or to and fro."""

from __future__ import annotations

import numpy as np

from testigo.rules import CannotCheck, Finding, Passed, found, passed, rule
from testigo.watch.curve import Curve
from testigo.watch.robust import block_levels, level, noise


@rule("T109", "diverging", "stop", phase="training")
def loss_does_not_run_away(curve: Curve, spreads: float = 6.0, share: float = 0.25) -> Finding | Passed:
    """The loss is not lastingly above where it began.

    Why it matters: a model that became worse than it was at the start hardly ever comes back, and each further update
    costs.

    What to do: lower `training.learning_rate` to a third; raise `training.schedule.warmup`; set `training.clip: 1.0`.

    Source: the median of the last ten updates against that of the first ten; six standard deviations of the noise of
    single updates are about ten of the difference of these medians.
    """
    losses = curve.losses[curve.taken]
    if len(losses) < 20:
        raise CannotCheck("fewer than 20 updates were taken")
    start, now = level(losses[:10]), level(losses[-10:])
    band = max(spreads * noise(losses[:-10][-200:]), share * abs(start))
    seen = f"loss {start:.3f} at first, {now:.3f} over the last ten updates (band {band:.3f})"
    return found(seen) if now > start + band else passed(seen)


@rule("T116", "loss-climbs", "warn", phase="training", requires=("T109",))
def loss_does_not_climb(curve: Curve, spreads: float = 6.0, share: float = 0.25, block: int = 20) -> Finding | Passed:
    """The training loss does not climb lastingly from the best that it reached.

    Why it matters: a loss that was reached and lost means a learning rate too high for where the model is now, or rows
    of another kind from here on.

    What to do: lower `training.learning_rate`, or use `training.schedule.kind: cosine`; see that rows are shuffled.

    Source: medians of blocks of 20 updates; six standard deviations of single updates are about twenty of a block's
    median.
    """
    losses = curve.losses[curve.taken]
    blocks = block_levels(losses, block)
    if len(blocks) < 3:
        raise CannotCheck(f"fewer than {3 * block} updates were taken")
    best, now = float(blocks[:-1].min()), float(blocks[-1])
    band = max(spreads * noise(losses[:-block][-400:]), share * abs(best))
    seen = f"best block of {block} updates has loss {best:.3f}, the last {now:.3f} (band {band:.3f})"
    return found(seen) if now > best + band else passed(seen)


@rule("T111", "plateau", "warn", phase="training")
def loss_moves(curve: Curve, share: float = 0.04, at_least: int = 60, learned: float = 0.05) -> Finding | Passed:
    """The loss has fallen, beyond its noise, since warm-up.

    Why it matters: a loss that never moved from where it began means a learning rate too small, or parameters that do
    not reach the output. A curve that fell first and is flat now is not meant: it may be done.

    What to do: see U101 and B103 in the pilot; raise `training.learning_rate` threefold; raise `model.adapter.rank`;
    shorten `training.schedule.warmup`.

    Source: an equivalence test (Schuirmann 1987): the slope's estimate over all updates and three standard errors
    (noise × sqrt(12/n) over the whole run) must stay below 4 % of fall, the estimate itself within two standard errors
    of none, and the last third not below the first five. At least 60 updates after warm-up, and a third of the planned
    run (120 updates where the plan is not known).
    """
    taken = curve.taken
    losses, rates = curve.losses[taken], curve.learning_rates[taken]
    planned = 0 if curve.planned_learning_rates is None else len(curve.planned_learning_rates)
    after = losses[_warm_up_end(curve, rates) :]
    if len(after) < at_least or curve.updates[-1] < (planned / 3 or 2 * at_least):
        raise CannotCheck(f"{len(after)} updates since warm-up are too few to say")
    sigma = noise(losses)
    start, now = level(losses[:5]), level(losses[-max(20, len(losses) // 3) :])
    error = sigma * float(np.sqrt(12 / len(losses)))
    if 3 * error > share * abs(start):
        raise CannotCheck(f"{len(losses)} losses are too noisy to see a fall of {share:.0%}")
    calm = np.clip(losses, level(losses) - 3 * sigma, level(losses) + 3 * sigma)
    fall = -12 * float(np.mean(np.linspace(-0.5, 0.5, len(losses)) * (calm - calm.mean())))
    bound = fall + 3 * error
    fell = start - now > max(share * abs(start), 3 * 1.25 * sigma / np.sqrt(5))
    seen = f"loss {start:.3f} at first, {now:.3f} lately; fall at most {bound:.3f} over {len(losses)} updates"
    stuck = fall <= 2 * error and bound < share * abs(start) and not fell and now > learned
    return found(seen) if stuck else passed(seen)


@rule("T115", "oscillation", "warn", phase="training")
def loss_does_not_oscillate(curve: Curve, updates: int = 40, share: float = 0.05) -> Finding | Passed:
    """The loss does not jump to and fro from update to update.

    Why it matters: a loss that is up, down, up, down steps over the valley again and again.

    What to do: halve `training.learning_rate`; raise `training.accumulation`.

    Source: gradient descent over a parabola overshoots for ever at a learning rate of 2 / curvature (Goodfellow, Bengio
    and Courville 2016, section 8.2). Independent noise changes its direction in two of three places; 38 of 39 happens
    once in 10^5. The same rows coming back every second update are no fault.
    """
    taken = curve.taken
    losses, numbers = curve.losses[taken][-updates:], curve.updates[taken][-updates:]
    if len(losses) < updates:
        raise CannotCheck(f"fewer than {updates} updates were taken")
    if numbers[-1] - numbers[0] >= 2 * updates:
        raise CannotCheck("the last updates are not in a row")
    steps = np.diff(losses)
    turns = int(np.count_nonzero(steps[1:] * steps[:-1] < 0))
    likeness = float(steps[1:] @ steps[:-1]) / max(float(steps @ steps), 1e-300)
    size = level(np.abs(steps))
    seen = f"{turns} turns in {len(losses)} updates, step {size:.3f} at loss {level(losses):.3f}"
    swings = turns >= len(steps) - 2 and likeness < -0.85 and size > share * abs(level(losses))
    return found(seen) if swings and not _same_rows_again(curve, numbers.tolist()) else passed(seen)


def _warm_up_end(curve: Curve, rates: np.ndarray[tuple[int], np.dtype[np.float64]]) -> int:
    """Index of the first update with (nearly) the highest learning rate that was planned or used."""
    known = rates[np.isfinite(rates)]
    if len(known) == 0:
        return 0
    planned = curve.planned_learning_rates
    highest = float(np.max(known if planned is None or len(planned) == 0 else planned))
    reached = np.flatnonzero(rates >= 0.99 * highest)
    return int(reached[0]) if len(reached) else len(rates)


def _same_rows_again(curve: Curve, numbers: list[float]) -> bool:
    known = [(curve.rows.get(int(n)), curve.rows.get(int(n) - 2)) for n in numbers]
    both = [set(now) == set(before) for now, before in known if now and before]
    return len(both) > 0 and sum(both) > len(both) / 2
