"""From numbers to verdicts, against what was registered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from testigo.judgement.paired import Paired

ImprovementVerdict = Literal["shown", "refuted", "not decided"]
GuardVerdict = Literal["kept", "broken", "undecidable"]

_ROUNDING: Final = 1e-9  # 0.35 − 0.25 is a hair below 0.1 in floating point


@dataclass(frozen=True)
class Improvement:
    """The registered improvement and what became of it. `p_value` is corrected where several were tried."""

    metric: str
    verdict: ImprovementVerdict
    difference: float
    low: float
    high: float
    p_value: float
    by: float
    test: str
    interval: str
    n: int

    def to_json(self) -> dict[str, Any]:
        """All fields as a JSON object."""
        return asdict(self)


@dataclass(frozen=True)
class Guard:
    """A metric that must not fall by more than `within`. `lower_bound` is one-sided at 1 − alpha."""

    metric: str
    verdict: GuardVerdict
    difference: float
    low: float
    high: float
    within: float
    lower_bound: float
    upper_bound: float
    interval: str
    n: int

    def to_json(self) -> dict[str, Any]:
        """All fields as a JSON object."""
        return asdict(self)


def decide_improvement(paired: Paired, by: float, alpha: float, *, p_value: float | None = None) -> ImprovementVerdict:
    """Judge a difference against the registered effect.

    *shown*: the test finds it (p < alpha), the interval lies above zero, and the observed difference is at least `by`.
    So it is real, and as large as was registered. An interval wholly above `by` is not asked for: an effect of exactly
    the registered size would then be missed nearly always, and nobody could plan the rows that it takes.
    *refuted*: the interval lies below `by`: an effect of the registered size is excluded, whether a smaller one is
    there or none.
    *not decided*: anything else; more rows would decide it.

    Parameters
    ----------
    p_value
        A corrected one in place of the metric's own.
    """
    p = paired.p_value if p_value is None else p_value
    if p < alpha and paired.low > 0 and paired.difference >= by - _ROUNDING:
        return "shown"
    return "refuted" if paired.high < by - _ROUNDING else "not decided"


def decide_guard(paired: Paired, within: float) -> GuardVerdict:
    """Judge whether a metric stayed within its margin: a non-inferiority test at the comparison's alpha, one-sided.

    *kept*: a fall by `within` or more is excluded. *broken*: a smaller fall than `within` is excluded.
    *undecidable*: these rows cannot tell. Guards are not corrected for their number, because all must be kept.

    Source: intersection-union test, Berger 1982, Technometrics 24:295-300.
    """
    if paired.lower_bound > -within:
        return "kept"
    return "broken" if paired.upper_bound < -within - _ROUNDING else "undecidable"


def improvement_of(paired: Paired, metric: str, by: float, alpha: float, p_value: float | None = None) -> Improvement:
    """The decision with its numbers."""
    return Improvement(
        metric=metric,
        verdict=decide_improvement(paired, by, alpha, p_value=p_value),
        difference=paired.difference,
        low=paired.low,
        high=paired.high,
        p_value=paired.p_value if p_value is None else p_value,
        by=by,
        test=paired.test,
        interval=paired.interval,
        n=paired.n,
    )


def guard_of(paired: Paired, metric: str, within: float) -> Guard:
    """The decision with its numbers."""
    return Guard(
        metric=metric,
        verdict=decide_guard(paired, within),
        difference=paired.difference,
        low=paired.low,
        high=paired.high,
        within=within,
        lower_bound=paired.lower_bound,
        upper_bound=paired.upper_bound,
        interval=paired.interval,
        n=paired.n,
    )


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """P-values corrected for their number, in the given order: the chance of any false one stays below alpha.

    Source: Holm 1979, Scandinavian Journal of Statistics 6:65-70.
    """
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = largest
    return tuple(adjusted)
