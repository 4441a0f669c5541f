"""A learning rate of zero in the middle of a run."""

from __future__ import annotations

import numpy as np

from testigo.rules import CannotCheck, Finding, Passed, found, passed, rule
from testigo.watch.curve import Curve


@rule("T121", "learning-rate-zero", "warn", phase="training")
def learning_rate_is_not_zero(curve: Curve, in_a_row: int = 10, share: float = 1e-9) -> Finding | Passed:
    """The learning rate is not zero for many updates in a row.

    Why it matters: an update at learning rate zero costs as much as any other and changes nothing.

    What to do: not tested, likeliest first: a schedule that was made for fewer updates than were done (stepped once a
    microbatch, or made before `training.accumulation` was counted), so see `training.schedule` and
    `training.updates`; a rate of zero in a parameter group.

    Source: the first update of a warm-up and the last of a decay may be zero; ten in a row are no shape of a schedule.
    Below 1e-9 of the highest rate of the run counts as zero, since that is less than fp32 can add to a weight.
    """
    known = np.isfinite(curve.learning_rates) & ~curve.skipped
    rates, updates = curve.learning_rates[known], curve.updates[known]
    if len(rates) < in_a_row:
        raise CannotCheck(f"fewer than {in_a_row} learning rates were measured")
    highest = float(rates.max())
    seen = f"highest learning rate {highest:.3g}; at most {{}} updates in a row at zero"
    zero = rates <= share * highest
    if not zero.any():
        return passed(seen.format(0))
    # the length of the run of zeros that ends at each place
    places = np.arange(len(zero))
    last_other = np.maximum.accumulate(np.where(zero, -1, places))
    length = np.where(zero, places - last_other, 0)
    longest = int(length.max())
    if longest < in_a_row:
        return passed(seen.format(longest))
    end = int(length.argmax())
    return found(f"{longest} updates in a row at learning rate zero, from update {int(updates[end - longest + 1])} on")
