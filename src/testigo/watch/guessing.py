"""Losses that say that the model reads something else than it should."""

from __future__ import annotations

import math

import numpy as np

from testigo.rules import CannotCheck, Finding, Passed, found, passed, rule
from testigo.watch.curve import Curve
from testigo.watch.robust import level, noise


@rule("T105", "first-loss-far-from-base", "warn", phase="training")
def first_loss_is_near_the_base(curve: Curve, nats: float = 0.5, share: float = 0.5) -> Finding | Passed:
    """The first losses are not far above the untouched base's loss on the same kind of rows.

    Why it matters: training begins as the base; a loss far above means another template, another alignment of labels,
    or an adapter that is not new.

    What to do: compare prompts with `testigo show`; run the pilot, which compares row by row (F108).

    Source: LoRA's B starts at zero (Hu et al. 2021). The median of the first five updates may lie half a nat and half
    the base's loss above it, and four times the spread between these updates, since batches differ.
    """
    if curve.base_loss is None:
        raise CannotCheck("the base's loss is not known")
    if curve.since >= 20:
        raise CannotCheck("the first updates were judged before")
    first = curve.losses[:5][curve.taken[:5]]
    if len(first) < 5:
        raise CannotCheck("fewer than five updates were taken")
    limit = curve.base_loss + nats + share * abs(curve.base_loss) + 4 * noise(first) / math.sqrt(5)
    seen = f"the first five updates have loss {level(first):.3f}, the base {curve.base_loss:.3f} (limit {limit:.3f})"
    return found(seen) if level(first) > limit else passed(seen)


@rule("T106", "worse-than-guessing", "stop", phase="training")
def loss_is_below_guessing(curve: Curve, after: int = 10, margin: float = 0.2) -> Finding | Passed:
    """After ten updates the loss is not above that of guessing among all tokens.

    Why it matters: a language model that does worse than ln(vocabulary) was broken, by a learning rate too high or by
    labels that do not belong to the inputs.

    What to do: look at rows with `testigo show`; lower `training.learning_rate`; raise `training.schedule.warmup`.

    Source: the entropy of a uniform choice is ln(V) (Shannon 1948). Four of the last five updates must lie above, and
    their median by 0.2 nats, which a model that starts from nothing may have.
    """
    if curve.vocabulary_size is None:
        raise CannotCheck("the vocabulary size is not known")
    recent = curve.losses[-5:][curve.taken[-5:]]
    if len(curve) == 0 or curve.updates[-1] < after or len(recent) == 0:
        raise CannotCheck(f"fewer than {after} updates were done")
    guess = math.log(curve.vocabulary_size)
    seen = f"loss {level(recent):.3f} at update {int(curve.updates[-1])}; guessing has ln(V) = {guess:.3f}"
    above = int((recent > guess).sum())
    return found(seen) if level(recent) > guess + margin and above >= 0.8 * len(recent) else passed(seen)


@rule("T107", "nothing-is-learned", "stop", phase="training")
def something_is_in_the_loss(curve: Curve) -> Finding | Passed:
    """No update has a loss of exactly zero with a gradient of exactly zero.

    Why it matters: that is what a run with every label masked looks like; it ends with exit code 0 and learned nothing.

    What to do: look at the mask with `testigo show`; raise `encoding.maximum_length` when answers were cut away.

    Source: cross-entropy is zero only for a probability of one, which a softmax over finite logits does not give.
    """
    zero = (curve.losses == 0.0) & (curve.gradient_norms == 0.0) & ~curve.skipped
    at = np.flatnonzero(zero & (curve.updates > curve.since))
    if len(at):
        update = int(curve.updates[at[0]])
        return found(
            f"update {update}: loss 0.0 and gradient norm 0.0 ({len(at)} such updates)", rows=curve.rows.get(update, ())
        )
    return passed("no update has both loss and gradient norm at zero")


@rule("T114", "too-good-too-fast", "warn", phase="training")
def loss_is_plausible(curve: Curve, within: int = 50, nats: float = 0.005, from_nats: float = 0.5) -> Finding | Passed:
    """The loss does not fall to nearly nothing on rows that were never seen before.

    Why it matters: unseen rows that are predicted almost perfectly after a few updates usually hold their answer in the
    prompt, or are copies of each other.

    What to do: look at rows with `testigo show`; set `data.duplicates.exact: drop`; see whether the input holds the
    target.

    Source: 0.005 nats is a probability of 99.5 % for each token; only the first pass over the rows and the first 50
    updates are judged, since rows seen twice may be known by heart.
    """
    early = (curve.updates <= within) & (curve.epochs <= 1.0) & curve.taken
    losses = curve.losses[early]
    if curve.since >= within:
        raise CannotCheck("the first updates were judged before")
    if not np.isfinite(curve.epochs).any():
        raise CannotCheck("the epoch is not known")
    if len(losses) < 8:
        raise CannotCheck("fewer than eight updates in the first pass over the rows")
    low = min(level(losses[at : at + 5]) for at in range(3, len(losses) - 4))
    seen = f"loss {losses[0]:.3f} at first, at best {low:.4f} over five updates of unseen rows"
    return found(seen) if losses[0] >= from_nats and low < nats else passed(seen)
