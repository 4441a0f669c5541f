"""A loss that is worse than guessing."""

from __future__ import annotations

import math

from testigo.rules import CannotCheck, Finding, Passed, found, passed, rule
from testigo.watch.curve import Curve
from testigo.watch.robust import level


@rule("T106", "worse-than-guessing", "stop", phase="training")
def loss_is_below_guessing(curve: Curve, after: int = 10, margin: float = 0.2) -> Finding | Passed:
    """After ten updates the loss is not above that of guessing among all tokens.

    Why it matters: a language model that does worse than ln(vocabulary) was broken, by a learning rate too high or by
    labels that do not belong to the inputs.

    What to do: not tested, likeliest first: `training.learning_rate` too high, so lower it and raise
    `training.schedule.warmup`; labels that do not belong to the inputs, so look at rows with `testigo show`.

    Source: the entropy of a uniform choice is ln(V) (Shannon 1948). Four of the last five updates must lie above, and
    their median by 0.2 nats, which a model that starts from nothing may have.
    """
    if curve.vocabulary_size is None:
        raise CannotCheck("the vocabulary size is not known")
    recent = curve.losses[-5:][curve.taken[-5:]]
    if len(curve) == 0 or curve.updates[-1] < after or len(recent) == 0:
        raise CannotCheck(f"fewer than {after} updates were done")
    guess = math.log(curve.vocabulary_size)
    middle = f"median loss {level(recent):.3f} of the last {len(recent)} updates"
    seen = f"{middle}, up to update {int(curve.updates[-1])}; guessing has ln(V) = {guess:.3f}"
    above = int((recent > guess).sum())
    return found(seen) if level(recent) > guess + margin and above >= 0.8 * len(recent) else passed(seen)
