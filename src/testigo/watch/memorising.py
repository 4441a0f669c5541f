"""Training rows that are known by heart: their targets, asked for without their inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from testigo.rules import CannotCheck, Finding, Passed, found, passed, rule
from testigo.watch.robust import level, spread


@dataclass(frozen=True)
class Recall:
    """Loss of targets whose prompt has an empty input, nats per token, by the base and by the tuned model."""

    train_before: Mapping[str, float]
    train_now: Mapping[str, float]
    other_before: Mapping[str, float]
    """Rows that the training never saw: validation rows."""
    other_now: Mapping[str, float]


@rule("O115", "learned-by-heart", "warn", phase="outputs")
def rows_are_not_known_by_heart(
    recall: Recall, spreads: float = 6.0, nats: float = 1.0, known_nats: float = 0.69, at_least: int = 8
) -> Finding | Passed:
    """Targets of training rows are not known without their inputs.

    Why it matters: a target that comes without its input was learned by heart: the model gives it away to anybody who
    asks, and what it scores on rows like it says nothing about rows that are new.

    What to do: not tested, likeliest first: fewer `training.epochs`; rows that come many times (see
    `data.duplicates`); a lower `model.adapter.rank` or `training.learning_rate`; take the named rows out of
    `data.source` when they are private.

    Source: the exposure of canaries (Carlini et al. 2019, "The Secret Sharer"), as a comparison with rows that were not
    trained on: what the form of the task alone gives, both gain. A training row must have gained one nat a token more
    than the median of the others and six of their spreads, and be written by greedy decoding (0.69 nats are a
    probability of one half for each token).
    """
    others = np.array([recall.other_before[row] - now for row, now in recall.other_now.items()], dtype=np.float64)
    others = others[np.isfinite(others)]
    if len(others) < at_least or not recall.train_now:
        raise CannotCheck(f"{len(others)} rows that were not trained on are too few to compare with")
    usual = level(others)
    limit = usual + max(nats, spreads * spread(others))
    gains = {row: recall.train_before[row] - now for row, now in recall.train_now.items()}
    known = [row for row, gain in gains.items() if gain > limit and recall.train_now[row] < known_nats]
    seen = f"{len(known)} of {len(gains)} training rows are known without their input; "
    seen += f"median gain {level(np.array(list(gains.values()))):.2f} nats a token, {usual:.2f} of rows not trained on"
    if not known:
        return passed(seen)
    known.sort(key=lambda row: recall.train_now[row])
    best = known[0]
    seen += f"; {best}: {recall.train_before[best]:.2f} before, {recall.train_now[best]:.2f} now"
    return found(seen, rows=known)
