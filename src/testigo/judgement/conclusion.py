"""The comparison in one plain sentence, for somebody who reads nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from testigo.judgement.decision import Guard, Improvement
from testigo.judgement.paired import Paired
from testigo.judgement.seeds import OverSeeds


def conclude(
    paired: Paired,
    improvement: Improvement,
    guards: Sequence[Guard],
    *,
    same_outputs: bool = False,
    better_variants: Sequence[str] = (),
    variants: int = 0,
    seeds: OverSeeds | None = None,
) -> str:
    """What the numbers allow to say about the registered question, and not more."""
    if same_outputs:
        return (
            f"The adapter has no effect: all {paired.n} outputs are the base model's own, word for word; "
            "look whether it was trained and loaded before anything else."
        )
    parts = [_about_improvement(paired, improvement, seeds)]
    parts += _about_guards(guards, improvement.verdict == "shown")
    if better_variants:
        parts.append(f"{_listed(better_variants)} did better than the control")
    elif variants:
        parts.append("no variant is shown to be better than the control, so the control stays")
    return "; ".join(parts) + "."


def _about_improvement(paired: Paired, improvement: Improvement, seeds: OverSeeds | None) -> str:
    level = f"{100 * (1 - paired.alpha):g} % interval {improvement.low:+.3f} to {improvement.high:+.3f}"
    over = f"{paired.n} rows" if paired.n_units == paired.n else f"{paired.n} rows in {paired.n_units} groups"
    numbers = (
        f"{improvement.metric} went from {paired.before:.3f} to {paired.after:.3f} "
        f"({improvement.difference:+.3f}, {level}, {over})"
    )
    if seeds is not None:
        count = len(seeds.differences)
        rose = f"all {count} rose" if seeds.rose == count else f"{seeds.rose} of {count} rose"
        if seeds.lost:
            rose += f", {len(seeds.lost)} diverged"
        numbers += f", over {count} seeds {seeds.mean:+.3f} on average, {rose}"
    by = f"the registered {improvement.by:g}"
    if improvement.verdict == "shown":
        return f"Improvement shown: {numbers}, at least {by}"
    if improvement.verdict == "refuted":
        if paired.high < 0:
            return f"The baseline stays best: {numbers}, so tuning made it worse"
        if paired.low > 0:
            return f"A small improvement, below {by}: {numbers}; by what was registered the baseline stays"
        return f"The baseline stays best: {numbers}, which excludes an improvement of {by}"
    if paired.difference == 0:
        return f"Not decided: {numbers}; no difference was seen, and {by} is not excluded with so few rows"
    if paired.low > 0 and improvement.p_value < paired.alpha:
        if seeds is not None and improvement.difference >= improvement.by:
            return f"Not decided: {numbers}; one seed alone shows it, the seeds together do not"
        return f"Not decided: {numbers}; it is a rise, but whether it reaches {by} is open"
    return f"Not decided: {numbers}; chance alone could do this, and {by} is not excluded"


def _about_guards(guards: Sequence[Guard], shown: bool) -> list[str]:
    broken = [guard for guard in guards if guard.verdict == "broken"]
    open_ones = [guard for guard in guards if guard.verdict == "undecidable"]
    but = "but " if shown else ""
    parts = [
        f"{but}{guard.metric} fell by {-guard.difference:.3f}, more than the {guard.within:g} allowed"
        for guard in broken
    ]
    if open_ones:
        names = _listed([guard.metric for guard in open_ones])
        margins = _listed(sorted({f"{guard.within:g}" for guard in open_ones}))
        parts.append(f"whether {names} stayed within {margins} cannot be decided with these rows")
    if guards and not broken and not open_ones:
        parts.append(f"{_listed([guard.metric for guard in guards])} stayed within the allowed margin")
    return parts


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
