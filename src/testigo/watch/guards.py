"""A guard's metric on the fixed prompts of a validation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import comb
from typing import Any

from testigo.rules import CannotCheck, Finding, Passed, found, passed, rule


@dataclass(frozen=True)
class Guarded:
    """One guard on the same rows, before the training and now."""

    metric: str
    within: float
    """The largest loss that the campaign accepts."""
    update: int
    rows: tuple[str, ...]
    before: tuple[float, ...]
    """Score of each row by the untouched base."""
    now: tuple[float, ...]
    """Score of each row at this validation."""

    @classmethod
    def of(
        cls,
        margins: Mapping[str, float],
        before: Iterable[Mapping[str, Any]],
        now: Iterable[Mapping[str, Any]],
        *,
        update: int,
    ) -> tuple[Guarded, ...]:
        """One record a guard, from prediction lines with "row" and "scores"."""
        was = {line["row"]: line["scores"] for line in before}
        lines = [line for line in now if line["row"] in was]
        return tuple(
            cls(
                metric=metric,
                within=within,
                update=update,
                rows=tuple(line["row"] for line in own),
                before=tuple(float(was[line["row"]][metric]) for line in own),
                now=tuple(float(line["scores"][metric]) for line in own),
            )
            for metric, within in margins.items()
            for own in [[line for line in lines if metric in line["scores"] and metric in was[line["row"]]]]
        )


@rule("O117", "guard-crossed", "warn", phase="outputs")
def guards_hold(guarded: Guarded, p: float = 0.02) -> Finding | Passed:
    """What must not get worse does not get worse on the fixed prompts.

    Why it matters: the campaign promised a margin. A guard that is lost in the middle of a run is hardly ever won back
    by more of the same, and the hours until the comparison are paid for.

    What to do: not tested, likeliest first: fewer `training.epochs` or `training.updates`; a lower
    `training.learning_rate` or `model.adapter.rank`; rows of the guarded kind among the training rows. Stop the run by
    hand when you believe it, and write why with `testigo note`; the comparison on all rows decides.

    Source: the one-sided sign test of the rows that became worse against those that became better (Dixon and Mood
    1946), below 2 % since each validation looks again; and the mean must have fallen by more than the margin. Fewer
    than six rows that changed can never say so: raise `evaluation.samples`.
    """
    if len(guarded.rows) < 6:
        raise CannotCheck(f"{len(guarded.rows)} fixed prompts are too few for {guarded.metric}")
    pairs = list(zip(guarded.rows, guarded.before, guarded.now, strict=True))
    worse = [row for row, before, now in pairs if now < before]
    changed = len(worse) + sum(now > before for _, before, now in pairs)
    chance = sum(comb(changed, k) for k in range(len(worse), changed + 1)) / 2**changed
    n = len(pairs)
    before, now = sum(guarded.before) / n, sum(guarded.now) / n
    seen = f"update {guarded.update}: {guarded.metric} {before:.3f} before, {now:.3f} now on {n} fixed prompts"
    crossed = before - now > guarded.within and chance < p
    return found(f"{seen} (margin {guarded.within:g}, p = {chance:.2g})", rows=worse) if crossed else passed(seen)
