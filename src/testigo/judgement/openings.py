"""The price of opening the sealed test more than once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from testigo.judgement.decision import ImprovementVerdict, holm


@dataclass(frozen=True)
class Price:
    """What the last opening's result is worth beside those before it.

    Attributes
    ----------
    openings
        How often the test was opened, this time included.
    p_value
        Of the improvement at this opening.
    corrected_p_value
        The same, corrected for all openings (Holm).
    verdict
        The improvement's verdict at the corrected value.
    chance
        The chance of at least one false improvement over all openings if none were corrected, at most (Bonferroni's
        inequality).
    """

    openings: int
    p_value: float
    corrected_p_value: float
    verdict: ImprovementVerdict
    chance: float

    def to_json(self) -> dict[str, Any]:
        """All fields as a JSON object."""
        return asdict(self)


def price_of(p_values: Sequence[float], verdict: ImprovementVerdict, alpha: float) -> Price:
    """The price of the last of several openings.

    Parameters
    ----------
    p_values
        Of the improvement at each opening, in order; the last is the one to be priced.
    verdict
        Its verdict before the correction. The correction can take *shown* back and gives nothing.

    Source: Holm 1979, Scandinavian Journal of Statistics 6:65-70; each look at the same rows is one more test.
    """
    corrected = holm(p_values)[-1]
    kept = verdict if verdict != "shown" or corrected < alpha else "not decided"
    chance = chance_of_false_improvement(len(p_values), alpha)
    return Price(len(p_values), p_values[-1], corrected, kept, chance)


def chance_of_false_improvement(openings: int, alpha: float) -> float:
    """At most, over so many openings of which none is corrected (Bonferroni's inequality)."""
    return min(1.0, openings * alpha)
