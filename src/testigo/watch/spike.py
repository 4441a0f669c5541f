"""A single loss far above its neighbours, with the rows that made it."""

from __future__ import annotations

import numpy as np

from testigo.rules import CannotCheck, Finding, Passed, found, passed, rule
from testigo.watch.curve import Curve, Numbers
from testigo.watch.robust import level, spread

_LEVEL, _FIRST = 9, 16


@rule("T104", "spike", "warn", phase="training")
def losses_do_not_spike(curve: Curve, spreads: float = 6.0, share: float = 0.2, window: int = 64) -> Finding | Passed:
    """No update's loss lies far above those before it.

    Why it matters: a spike is a batch that is unlike the others (damaged, foreign or mislabelled rows), or a step too
    large.

    What to do: look at the named rows with `testigo show`; when nothing is wrong with them, set `training.clip: 1.0`
    or lower `training.learning_rate`.

    Source: Hampel's identifier (median and median absolute deviation; Davies and Gather 1993), in the loss and in its
    logarithm, since losses of small batches are skewed; more is asked for while the window is short and where the
    batch has few supervised tokens. The loss must also lie twice as far above its level,
    the median of the nine losses before, as any loss in the window, and 20 % above it: less is not worth a look.
    """
    taken = curve.taken
    losses, updates, sizes = curve.losses[taken], curve.updates[taken], curve.supervised_tokens[taken]
    if len(losses) <= _FIRST:
        raise CannotCheck(f"fewer than {_FIRST + 1} updates were taken")
    at = [i for i in _candidates(losses) if updates[i] > curve.since]
    spikes = [
        i
        for i in at
        if _is_spike(losses[max(0, i - window) : i + 1], sizes[max(0, i - window) : i + 1], spreads, share)
    ]
    if not spikes:
        return passed(f"no spike in {len(losses)} updates")
    worst = max(spikes, key=lambda i: float(losses[i]))
    usual = level(losses[max(0, worst - window) : worst])
    update = int(updates[worst])
    seen = f"update {update}: loss {losses[worst]:.3f} where {usual:.3f} is usual ({len(spikes)} spikes)"
    return found(seen, rows=_worst_rows(curve, update))


def _candidates(losses: Numbers) -> list[int]:
    """Places above each of the ten losses before them: cheap, and every spike is one but right after another."""
    above = np.ones(len(losses), dtype=bool)
    above[:_FIRST] = False
    for back in range(1, 11):
        above[back:] &= losses[back:] > losses[:-back]
    return [int(i) for i in np.flatnonzero(above)]


def _is_spike(losses: Numbers, sizes: Numbers, spreads: float, share: float) -> bool:
    """Whether the last of these losses is a spike among those before it."""
    near = losses[-1 - _LEVEL : -1]
    usual = level(near)
    above = float(losses[-1]) - usual
    if above <= share * abs(usual) or above <= 2 * (float(near.max()) - usual):
        return False
    # A median absolute deviation of few values may be far too small.
    needed = spreads * (1 + 20 / (len(losses) - 6))
    # The mean of few tokens scatters more, as one over the square root of their number.
    if np.isfinite(sizes).all() and sizes[-1] > 0:
        needed *= max(1.0, float(np.sqrt(level(sizes[:-1]) / sizes[-1])))
    if not _far(losses, needed):
        return False
    # Six spreads of a logarithm are a factor of e to the sixth; four are rare enough, one in 10^4 to 10^5.
    return losses.min() <= 0 or _far(np.log(losses), needed * 2 / 3)


def _far(values: Numbers, needed: float) -> bool:
    """Whether the last value is far above its level, measured on how the others lie around theirs.

    The level is the median of the nine values before, so that a falling curve does not look like noise.
    """
    levels = np.array([level(values[max(0, i - _LEVEL) : i]) for i in range(5, len(values))])
    around = values[5:] - levels
    before, value = around[:-1], float(around[-1])
    sigma = max(spread(before), 1e-3 * abs(float(levels[-1])), 1e-12)
    return value > needed * sigma and value > 2 * float(before.max())


def _worst_rows(curve: Curve, update: int, most: int = 3) -> tuple[str, ...]:
    by_row = curve.row_losses.get(update)
    if by_row:
        return tuple(sorted(by_row, key=lambda row: -by_row[row])[:most])
    return curve.rows.get(update, ())
