"""Evidence about learning a tiny subset by heart, and the rules over it (codes U121 to U124).

It proves that the mechanics work: gradients, updates and generation fit together. It proves nothing about quality.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from testigo.gates.measured import need
from testigo.rules import CannotCheck, Finding, Passed, found, passed, rule


@dataclass(frozen=True, kw_only=True)
class OverfitEvidence:
    """What learning a tiny subset by heart showed. It proves the mechanics and nothing about quality."""

    rows: int | None = None
    """Rows of the subset."""
    updates: int | None = None
    """Updates that were spent on it."""
    first_loss: float | None = None
    """Loss before the first update, nats per supervised token."""
    last_loss: float | None = None
    """Loss after the last update, nats per supervised token."""
    supervised_tokens: int | None = None
    """Tokens in the loss of the whole subset, once."""
    right_answers: int | None = None
    """Rows whose greedy output is the target exactly."""
    answers: int | None = None
    """Rows for which an output was written."""
    answers_ended: int | None = None
    """Outputs that ended by themselves."""
    finite: bool | None = None
    """Whether every loss and gradient norm on the way was finite."""


@rule("U121", "overfit-not-finite", "stop", phase="update")
def overfit_stays_finite(evidence: OverfitEvidence) -> Finding | Passed:
    """Learning a tiny subset stays finite.

    Why it matters: what diverges on a handful of rows diverges on all of them.

    What to do: lower `training.learning_rate`, raise `training.schedule.warmup`, set `training.clip: 1.0`, or set
    `model.precision: fp32`.

    Source: Goodfellow, Bengio and Courville 2016, "Deep learning", section 11.5: fit a tiny data set.
    """
    if need(evidence.finite, "finiteness while overfitting"):
        return passed("every loss and gradient norm was finite")
    return found("a loss or gradient norm was NaN or infinite")


@rule("U122", "overfit-does-not-learn", "stop", phase="update", requires=("U121",))
def overfit_learns(evidence: OverfitEvidence, share: float = 0.7, learned: float = 0.1) -> Finding | Passed:
    """The loss of a tiny subset falls when it is trained on again and again.

    Why it matters: a loop that cannot learn a handful of rows by heart learns nothing from all of them. That it can
    proves the mechanics and nothing about quality.

    What to do: look at U101, B103 and the mask first; then raise `training.learning_rate`.

    Source: Goodfellow, Bengio and Courville 2016, section 11.5. A fall by 30 % is asked for, or an end below 0.1 nats
    per token (a probability above 90 % for each token), or any fall after which each answer comes out right: a small
    model whose frozen head keeps probabilities flat knows its rows at a high loss.
    """
    first, last = need(evidence.first_loss, "the first loss"), need(evidence.last_loss, "the last loss")
    seen = f"loss {first:.3f} to {last:.3f} in {evidence.updates or '?'} updates on {evidence.rows or '?'} rows"
    is_by_heart = bool(evidence.answers) and evidence.right_answers == evidence.answers and last < first
    if last <= share * first or last <= learned or is_by_heart:
        return passed(f"{seen} (this proves the mechanics, nothing about quality)")
    return found(seen)


@rule("U123", "learned-answers-not-written", "stop", phase="update", requires=("U122",))
def learned_is_written(evidence: OverfitEvidence) -> Finding | Passed:
    """What was learned by heart is written by generation.

    Why it matters: when the loss says that a row is known and greedy output is something else, training and generation
    see different prompts, different weights or different ends.

    What to do: compare the prompts with `testigo show`; raise `evaluation.max_new_tokens`; look at E108 and E110.

    Source: greedy decoding misses a token only where its probability is at most one half, which costs at least ln 2
    nats. So at most (loss × supervised tokens) / ln 2 rows can be wrong.
    """
    right, answers = need(evidence.right_answers, "the answers"), need(evidence.answers, "the answers")
    tokens, loss = (
        need(evidence.supervised_tokens, "the subset's supervised tokens"),
        need(evidence.last_loss, "the loss"),
    )
    excusable = math.floor(loss * tokens / (0.98 * math.log(2)))
    seen = f"{right} of {answers} answers right; a loss of {loss:.4f} excuses {min(excusable, answers)} wrong ones"
    if excusable >= answers:
        raise CannotCheck(f"the loss is too high to promise any right answer ({seen})")
    return found(seen) if answers - right > excusable else passed(seen)


@rule("U124", "overfit-not-by-heart", "note", phase="update", requires=("U122",))
def overfit_is_by_heart(evidence: OverfitEvidence, share: float = 0.5) -> Finding | Passed:
    """A tiny subset is learned well enough that its answers come out right.

    Why it matters: the loss fell, but nobody has seen a right answer yet; the proof of the mechanics is not complete.

    What to do: nothing when time is short; else give the pilot more updates, or raise `training.learning_rate`.

    Source: exact recall is the end of overfitting; half of the answers is asked for.
    """
    right, answers = need(evidence.right_answers, "the answers"), need(evidence.answers, "the answers")
    if answers == 0:
        raise CannotCheck("no answer was written")
    seen = f"{right} of {answers} answers of the tiny subset are right"
    return passed(seen) if right >= share * answers else found(seen)
