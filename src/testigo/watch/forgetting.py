"""What the model unlearned: the loss of general text that has nothing to do with the task."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from testigo.rules import CannotCheck, Finding, Passed, found, passed, rule


@dataclass(frozen=True)
class Retention:
    """Loss of fixed general passages, nats per token, by the base and by the tuned model."""

    before: Mapping[str, float]
    """Name of the passage -> loss of the base."""
    now: Mapping[str, float]
    vocabulary_size: int | None = None


@rule("O116", "general-text-forgotten", "warn", phase="outputs")
def general_text_is_kept(
    retention: Retention, nats: float = 0.3, errors: float = 3.0, knows: float = 0.7
) -> Finding | Passed:
    """The model still reads general text nearly as well as its base.

    Why it matters: what the task's metrics do not ask for can be lost unseen: another language, arithmetic, plain
    prose. Rows a little unlike the training rows then fail first.

    What to do: not tested, likeliest first: a lower `training.learning_rate`; fewer `training.epochs` or
    `training.updates`; a lower `model.adapter.rank`, or `model.adapter.method: lora` in place of `full`; general rows
    among the training rows.

    Source: catastrophic forgetting in fine-tuning (Luo et al. 2023, arXiv 2308.08747); that low-rank updates forget
    less (Biderman et al. 2024, arXiv 2405.09673). The mean over the passages must rise by 0.3 nats a token, a
    perplexity 35 % higher, and by three standard errors of the paired differences. A base that does worse than 70 % of
    ln(vocabulary) knows nothing that it could forget.
    """
    names = [name for name in retention.now if name in retention.before]
    if len(names) < 4:
        raise CannotCheck("fewer than four passages were measured before and now")
    before = np.array([retention.before[name] for name in names])
    now = np.array([retention.now[name] for name in names])
    if not np.isfinite(before).all():
        raise CannotCheck("the base's loss on general text is not finite")
    size = retention.vocabulary_size
    if size is not None and float(before.mean()) > knows * math.log(size):
        raise CannotCheck(f"the base has {before.mean():.2f} nats a token on general text: it knows none")
    rise = now - before
    error = float(rise.std(ddof=1)) / math.sqrt(len(rise))
    worst = names[int(np.argmax(rise))]
    seen = f"general text: {before.mean():.2f} nats a token before, {now.mean():.2f} now; most in {worst} "
    seen += f"({retention.before[worst]:.2f} to {retention.now[worst]:.2f})"
    lost = not np.isfinite(now).all() or float(rise.mean()) > max(nats, errors * error)
    return found(seen) if lost else passed(seen)
