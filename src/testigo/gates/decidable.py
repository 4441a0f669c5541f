"""Evidence about what the validation rows can decide at all, and the rules over it (codes V141 to V143).

It is gathered after the baseline, before any training.
"""

from __future__ import annotations

from dataclasses import dataclass

from testigo.gates.measured import need
from testigo.rules import CannotCheck, Finding, Passed, found, passed, rule


@dataclass(frozen=True, kw_only=True)
class HypothesisEvidence:
    """What was registered, and what the baseline's own rows can show of it. `None` means that it was not measured."""

    metric: str | None = None
    """The metric that is to rise."""
    by: float | None = None
    """The registered improvement."""
    room: float | None = None
    """How far the metric can rise at all: one minus the baseline's value."""
    chance: float | None = None
    """Of *shown* where the true rise is exactly the registered one."""
    shown_from: float | None = None
    """The true rise that is *shown* in 80 % of campaigns; infinite where none is."""
    detectable: float | None = None
    """The true rise that is told from chance in 80 % of campaigns; infinite where none is."""
    n_rows: int | None = None
    """Validation rows."""
    n_units: int | None = None
    """Rows, or groups of rows, that stand or fall apart from each other."""
    rows_needed: int | None = None
    """Rows from which on the registered improvement is told from chance in 80 % of campaigns; 0 where unknown."""
    guards: dict[str, tuple[float, float, int]] | None = None
    """Guarded metric -> its margin, the smallest margin that these rows decide, and the rows that its own needs."""


@rule("V141", "improvement-has-no-room", "stop", phase="validation")
def improvement_has_room(evidence: HypothesisEvidence) -> Finding | Passed:
    """The metric can still rise by what was registered.

    Why it matters: a baseline of 0.95 cannot rise by 0.10. Whatever is trained, the improvement would end as refuted,
    and the days would be lost.

    What to do: lower `hypothesis.improve.by` to what is left; choose a metric or rows on which the base is not yet so
    good.

    Source: by definition: no metric here rises above 1.
    """
    by, room = need(evidence.by, "the registered improvement"), need(evidence.room, "the baseline's value")
    seen = f"{evidence.metric} is {1 - room:.3f} before training; it can rise by {room:.3f}, and {by:g} is registered"
    return found(seen) if room < by - 1e-9 else passed(seen)


@rule("V142", "improvement-hardly-decidable", "warn", phase="validation", requires=("V141",))
def improvement_is_decidable(evidence: HypothesisEvidence) -> Finding | Passed:
    """The validation rows would tell the registered improvement from chance.

    Why it matters: too few rows, or rows in too few groups, end as *not decided* however good the model is.

    What to do: give `data.split.validation` more rows (the number is named), of other groups where rows are grouped; or
    register a larger `hypothesis.improve.by`.

    Source: power of 80 % by simulation from the baseline's own outputs, groups respected (Card et al. 2020, arXiv
    2010.06595); the two models' answers are taken as independent, the worst case in practice (Miller 2024, arXiv
    2411.00640).
    """
    by, from_ = need(evidence.by, "the registered improvement"), need(evidence.detectable, "the simulation")
    units = "rows" if evidence.n_units == evidence.n_rows else f"rows in {evidence.n_units} groups"
    seen = f"{evidence.n_rows} {units}"
    if from_ == float("inf"):
        return found(f"{seen} cannot show any improvement of {evidence.metric}")
    chance, shown = need(evidence.chance, "the simulation"), need(evidence.shown_from, "the simulation")
    seen += (
        f" tell a true rise of {from_:.3f} from chance in 8 of 10 campaigns; exactly {by:g} is shown in {chance:.0%}"
    )
    seen += "" if shown == float("inf") else f", and {shown:.3f} in 80%"
    if from_ <= by:
        return passed(seen)
    return found(seen + (f"; about {evidence.rows_needed:,} rows are needed" if evidence.rows_needed else ""))


@rule("V143", "guard-hardly-decidable", "warn", phase="validation")
def guards_are_decidable(evidence: HypothesisEvidence) -> Finding | Passed:
    """The validation rows could show that each guarded metric stayed within its margin.

    Why it matters: forty rows cannot show that a metric stayed within 0.02, even if none of them fell. Such a guard
    ends as *undecidable*, and protects nothing.

    What to do: give `data.split.validation` more rows (the number is named), or register a wider `within`.

    Source: non-inferiority with a power of 80 % where nothing changed; never below z² / (n + z²), what unchanged rows
    leave open (Tango 1998).
    """
    guards = need(evidence.guards, "the guards")
    if not guards:
        raise CannotCheck("no guard of the task's own metrics is registered")
    told = [f"{name} within {within:g}: decided from {least:.3f} on" for name, (within, least, _) in guards.items()]
    narrow = [
        f"{name} within {within:g} cannot be decided by {evidence.n_rows} rows: about {needed:,} are needed"
        for name, (within, least, needed) in guards.items()
        if least > within
    ]
    return found("; ".join(narrow)) if narrow else passed("; ".join(told))
