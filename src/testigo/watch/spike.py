"""A single loss far above its neighbours, with the rows that made it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from testigo.counting import counted
from testigo.rules import CannotCheck, Finding, Passed, found, passed, rule
from testigo.watch.curve import Curve
from testigo.watch.robust import Numbers, level, row_levels, spread

_LEVEL, _FIRST = 9, 16
_REMEDY = (
    "Cause, tested: the named rows; the other rows of the update have the usual loss. Look at them with "
    "`testigo show CAMPAIGN --row ID`: damaged, foreign or mislabelled? Mend or remove them in `data.source`; rows "
    "that are right and hard are held back by `training.clip: 1.0`."
)


@rule("T104", "spike", "warn", phase="training")
def losses_do_not_spike(curve: Curve, spreads: float = 6.0, share: float = 0.2, window: int = 64) -> Finding | Passed:
    """No update's loss lies far above those before it.

    Why it matters: a spike is a batch that is unlike the others (damaged, foreign or mislabelled rows), or a step too
    large.

    What to do: not tested, likeliest first: damaged, foreign or mislabelled rows, so look at the named ones with
    `testigo show CAMPAIGN --row ID`; when nothing is wrong with them a step too large, so set `training.clip: 1.0` or
    lower `training.learning_rate`.

    Source: Hampel's identifier (median and median absolute deviation; Davies and Gather 1993), in the loss and in its
    logarithm, since losses of small batches are skewed; more is asked for while the window is short and where the
    batch has few supervised tokens. The loss must also lie twice as far above its level,
    the median of the nine losses before, as any loss in the window, and 20 % above it: less is not worth a look.
    """
    taken = curve.taken
    losses, updates, sizes = curve.taken_losses, curve.updates[taken], curve.supervised_tokens[taken]
    if len(losses) <= _FIRST:
        raise CannotCheck(f"fewer than {_FIRST + 1} losses")
    new = max(_FIRST, int(updates.searchsorted(curve.since, side="right")))
    spikes: dict[int, float] = {}
    for i in _candidates(losses, share, new, again=2 if curve.row_losses else 0):
        among = _others(curve, updates[max(0, i - window) : i + 1]) + max(0, i - window)
        if len(among) > 10 and _is_spike(losses[among], sizes[among], spreads):
            spikes[i] = level(losses[among][-_LEVEL - 1 : -1])
    if not spikes:
        return passed(f"no spike in {len(losses)} losses")
    worst = max(spikes, key=lambda i: float(losses[i]))
    usual = spikes[worst]
    update = int(updates[worst])
    seen = f"update {update}: loss {losses[worst]:.3f} where {usual:.3f} is usual ({counted(len(spikes), 'spike')})"
    rows, tested = _blame(curve.row_losses.get(update, {}), float(losses[worst]), usual)
    return found(f"{seen}{tested}", rows=rows or curve.rows.get(update, ()), remedy=_REMEDY if tested else "")


def _candidates(losses: Numbers, share: float, new: int, *, again: int) -> list[int]:
    """Places from `new` on clearly above all but `again` of the ten losses before: cheap, and every spike is one."""
    n = len(losses)
    if n <= new:
        return []
    before = sliding_window_view(losses, 10)[new - 10 : n - 10]  # (places, 10)
    usual = row_levels(before[:, 1:])
    height = losses[new:] - usual
    rivals = np.partition(before, 9 - again, axis=1)[:, 9 - again]
    clear = (height > share * np.abs(usual)) & (height > 2 * (rivals - usual))
    return [new + int(i) for i in np.flatnonzero(clear)]


def _others(curve: Curve, updates: Numbers) -> npt.NDArray[np.intp]:
    """Places of the last of these updates and of those before it in which its suspect was not.

    A bad row comes back each epoch: its earlier spikes say nothing about how far healthy losses scatter. A suspect has
    twice the loss of any other row of its update.
    """
    kept = np.ones(len(updates), dtype=bool)
    by_row = curve.row_losses.get(int(updates[-1]), {})
    suspect, *others = sorted(by_row, key=lambda row: -by_row[row])[:2] or ("",)
    if others and by_row[suspect] > 2 * by_row[others[0]]:
        kept[:-1] = [suspect not in curve.row_losses.get(int(update), ()) for update in updates[:-1]]
    return np.flatnonzero(kept)


def _is_spike(losses: Numbers, sizes: Numbers, spreads: float) -> bool:
    """Whether the last of these losses is a spike among those before it."""
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
    first = [level(values[:i]) for i in range(5, _LEVEL)]
    levels = np.concatenate([first, row_levels(sliding_window_view(values, _LEVEL)[:-1])])
    around = values[5:] - levels
    before, value = around[:-1], float(around[-1])
    sigma = max(spread(before), 1e-3 * abs(float(levels[-1])), 1e-12)
    return value > needed * sigma and value > 2 * float(before.max())


def _blame(by_row: Mapping[str, float], loss: float, usual: float, most: int = 3) -> tuple[tuple[str, ...], str]:
    """The rows with the largest losses, and in words whether the update would have been usual without them.

    That is tested by taking them out of the mean: the loss of the others must lie nearer to the usual loss than a
    quarter of the way to the spike. Without it the rows are only where one should look first.
    """
    worst = sorted(by_row, key=lambda row: -by_row[row])[:most]
    for n in range(1, len(worst) + 1):
        others = [value for row, value in by_row.items() if row not in worst[:n]]
        if len(others) > n and abs(float(np.mean(others)) - usual) < 0.25 * (loss - usual):
            left = f"its other {counted(len(others), 'row has', 'rows have')} {np.mean(others):.3f}"
            return tuple(worst[:n]), f"; without {counted(n, 'row')} {left}"
    return tuple(worst), ""
