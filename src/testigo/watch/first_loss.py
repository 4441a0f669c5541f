"""The first losses against those of the untouched base."""

from __future__ import annotations

import math

from testigo.rules import CannotCheck, Finding, Passed, found, passed, rule
from testigo.watch.curve import Curve
from testigo.watch.robust import level, noise


@rule("T105", "first-loss-far-from-base", "warn", phase="training")
def first_loss_is_near_the_base(curve: Curve, nats: float = 0.5, share: float = 0.5) -> Finding | Passed:
    """The first losses are not far above the untouched base's loss on the same kind of rows.

    Why it matters: training begins as the base; a loss far above means another template, another alignment of labels,
    or an adapter that is not new.

    What to do: not tested, likeliest first: another template or alignment of labels than the model's own, so compare
    prompts with `testigo show` and run the pilot, which compares row by row (F108); an adapter that is not new.

    Source: LoRA's B starts at zero (Hu et al. 2021). The median of the first five updates may lie half a nat and half
    the base's loss above it, and four times the spread between these updates, since batches differ.
    """
    if curve.base_loss is None:
        raise CannotCheck("the base's loss is not known")
    if curve.since >= 20:
        raise CannotCheck("the first updates were judged before")
    first = curve.losses[:5][curve.taken[:5]]
    if len(first) < 5:
        raise CannotCheck("fewer than five losses")
    limit = curve.base_loss + nats + share * abs(curve.base_loss) + 4 * noise(first) / math.sqrt(5)
    seen = f"the first five updates have loss {level(first):.3f}, the base {curve.base_loss:.3f} (limit {limit:.3f})"
    return found(seen) if level(first) > limit else passed(seen)
