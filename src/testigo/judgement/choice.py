"""Which variant goes to the sealed test: one, chosen on validation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from testigo.judgement.results import Comparison, Variant

CONTROL = "control"


@dataclass(frozen=True)
class Choice:
    """The variant that goes on, and why in words."""

    variant: str
    because: str

    def to_json(self) -> dict[str, Any]:
        """All fields as a JSON object."""
        return asdict(self)


def choose(comparison: Comparison, forgets: Mapping[str, bool] | None = None) -> Choice:
    """The control, unless a variant is better than it by Holm and breaks no guard; of several the one furthest ahead.

    Never the best value alone: of variants without any difference one is always best.

    Parameters
    ----------
    forgets
        Variant -> whether it breaks a guard beside the task.

    Source: Holm 1979; only one choice is held against the sealed test, so the test needs no correction.
    """
    better = {name: one for name, one in comparison.variants.items() if one.better_than_control}
    whole = {name: one for name, one in better.items() if not _breaks(one) and not (forgets or {}).get(name)}
    if whole:
        name = max(whole, key=lambda name: whole[name].against_control.difference)
        ahead = whole[name].against_control
        return Choice(
            name, f"better than the control by {ahead.difference:+.3f} (Holm over {len(comparison.variants)})"
        )
    if better:
        return Choice(CONTROL, f"{', '.join(better)} did better, and broke a guard")
    if comparison.variants:
        n = len(comparison.variants)
        which = "the one variant is not" if n == 1 else f"none of the {n} variants is"
        return Choice(CONTROL, f"{which} shown to be better (Holm)")
    return Choice(CONTROL, "there is no variant")


def _breaks(variant: Variant) -> bool:
    return any(guard.verdict == "broken" for guard in variant.guards)
