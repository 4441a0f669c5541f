"""What the training may have cost elsewhere: general text and guard tasks, each a guard of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, Protocol

import numpy as np

from testigo.judgement.decision import Guard, decide_guard, guard_of
from testigo.judgement.lines import Line, pair_up
from testigo.judgement.metric import compare_metric
from testigo.judgement.paired import Paired
from testigo.judgement.registered import Hypothesis
from testigo.judgement.units import sign_flip, t_interval

GENERAL_LOSS: Final = "general_loss"
FEWEST: Final = 4
"""Passages below which nothing is said of general text."""


class GuardTask(Protocol):
    """A registered guard task, as the judgement reads it."""

    @property
    def metric(self) -> str:
        """A metric of the task."""
        ...

    @property
    def within(self) -> float:
        """The fall that is allowed."""
        ...


@dataclass(frozen=True)
class Kept:
    """A guard beside the task's own metrics.

    Attributes
    ----------
    task
        The guard task; empty for general text.
    better
        Which way is good: `lower` for a loss, whose guard is broken by a rise.
    """

    guard: Guard
    before: float
    after: float
    task: str = ""
    better: Literal["higher", "lower"] = "higher"

    def to_json(self) -> dict[str, Any]:
        """The guard's fields and what it is about."""
        about = {"task": self.task, "better": self.better, "before": self.before, "after": self.after}
        return {**self.guard.to_json(), **about}


@dataclass(frozen=True)
class Forgetting:
    """Guards beside the task, of the control and of each variant, and the loss of general text."""

    guards: tuple[Kept, ...]
    variants: dict[str, tuple[Kept, ...]]
    general: dict[str, Paired]
    conclusion: str

    def to_json(self) -> dict[str, Any]:
        """All fields as a JSON object."""
        return {
            "guards": [one.to_json() for one in self.guards],
            "variants": {name: [one.to_json() for one in kept] for name, kept in self.variants.items()},
            "general": {name: paired.to_json() for name, paired in self.general.items()},
            "conclusion": self.conclusion,
        }


def compare_losses(before: Mapping[str, float], now: Mapping[str, float], alpha: float = 0.05) -> Paired | None:
    """Losses of the same fixed passages before and after [nats per token]; None with fewer than four.

    The passages are fixed: the interval says how far another text of this kind could rise. `fixed` counts passages
    whose loss fell, `broken` those whose loss rose.

    Source: paired t over passages; Student 1908.
    """
    names = [name for name in before if name in now and np.isfinite([before[name], now[name]]).all()]
    if len(names) < FEWEST:
        return None
    old, new = (np.asarray([side[name] for name in names], dtype=np.float64) for side in (before, now))
    rises, ones = new - old, np.ones(len(names))
    low, high = t_interval(rises, ones, 1 - alpha)
    lower, upper = t_interval(rises, ones, 1 - 2 * alpha)
    fell, rose = int((rises < 0).sum()), int((rises > 0).sum())
    return Paired(
        n=len(names),
        before=float(old.mean()),
        after=float(new.mean()),
        difference=float(rises.mean()),
        low=low,
        high=high,
        p_value=sign_flip(rises, seed=0),
        test="sign-flip of passages",
        interval="t over passages",
        fixed=fell,
        broken=rose,
        both_right=0,
        both_wrong=len(names) - fell - rose,
        n_units=len(names),
        lower_bound=lower,
        upper_bound=upper,
        alpha=alpha,
    )


def turned(paired: Paired) -> Paired:
    """The same with signs changed: of a loss, so that up is good and a guard of a score decides it."""
    return replace(
        paired,
        difference=-paired.difference,
        low=-paired.high,
        high=-paired.low,
        lower_bound=-paired.upper_bound,
        upper_bound=-paired.lower_bound,
    )


def loss_guard(paired: Paired, metric: str, within: float) -> Kept:
    """A guard of a loss: *kept* where a rise by `within` or more is excluded. Its numbers are those of the loss."""
    guard = replace(guard_of(paired, metric, within), verdict=decide_guard(turned(paired), within))
    return Kept(guard, paired.before, paired.after, better="lower")


def forgetting_of(
    losses: Mapping[str, Mapping[str, float]],
    tasks: Mapping[str, tuple[GuardTask, str, Sequence[Line], Mapping[str, Sequence[Line]]]],
    hypothesis: Hypothesis,
    runs: Sequence[str],
) -> Forgetting | None:
    """Everything beside the task; None where nothing was measured.

    Parameters
    ----------
    losses
        `baseline` and each run -> passage -> loss [nats per token].
    tasks
        Name of a guard task -> what was registered, its metric's kind, the base's lines, and each run's.
    runs
        `control` first, then the variants.
    """
    alpha = hypothesis.alpha
    general = {name: compare_losses(losses.get("baseline", {}), losses.get(name, {}), alpha) for name in runs}
    known = {name: paired for name, paired in general.items() if paired is not None}
    found: dict[str, tuple[Kept, ...]] = {}
    for name in runs:
        kept = [
            loss_guard(known[name], keep.metric, keep.within)
            for keep in hypothesis.keep
            if keep.metric == GENERAL_LOSS and name in known
        ]
        for task, (guard, kind, base, made) in tasks.items():
            if name in made:
                pairs = pair_up(base, made[name], {guard.metric: kind}, f"{name}, {task}")
                paired = compare_metric(pairs, guard.metric, kind, alpha, 0)
                kept.append(Kept(guard_of(paired, guard.metric, guard.within), paired.before, paired.after, task))
        found[name] = tuple(kept)
    if not known and not any(found.values()):
        return None
    first = runs[0]
    return Forgetting(found[first], {name: found[name] for name in runs[1:]}, known, _told(found[first]))


def _told(kept: Sequence[Kept]) -> str:
    """The control's guards in a sentence; empty where none was registered."""
    parts = []
    for one in kept:
        guard, what = one.guard, f"{one.guard.metric} of {one.task}" if one.task else "the loss of general text"
        unit = " nats per token" if one.better == "lower" else ""
        moved = f"{one.before:.3f} to {one.after:.3f}"
        if guard.verdict == "kept":
            parts.append(f"{what} stayed within {guard.within:g}{unit} ({moved})")
        elif guard.verdict == "broken":
            word = "rose" if one.better == "lower" else "fell"
            parts.append(f"{what} {word} by more than the {guard.within:g}{unit} allowed ({moved})")
        else:
            parts.append(f"whether {what} stayed within {guard.within:g}{unit} cannot be decided ({moved})")
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}." if text else ""
