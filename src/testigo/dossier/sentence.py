"""The comparison's conclusion, built again from its numbers in the reader's language.

`testigo.judgement` wrote it in English, and that text is the record. A translation is shown only where these same
patterns, filled in English, give that text to the letter: then both say the same about the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from testigo.dossier.language import _, speaking, spoken
from testigo.dossier.units import level, written

Values = Mapping[str, Any]


def conclusion_told(statistics: Values) -> str | None:
    """The conclusion in the language that is spoken; None when there is none, or when it cannot be built again."""
    stored = statistics.get("conclusion")
    return _again(str(stored), lambda: _conclusion(statistics)) if stored else None


def seeds_told(statistics: Values) -> str | None:
    """What the seeds show, in the same way."""
    seeds = statistics.get("seeds")
    if not isinstance(seeds, Mapping) or not seeds.get("note"):
        return None
    return _again(str(seeds["note"]), lambda: _seeds_note(seeds, float(_own(statistics)["alpha"])))


def _again(stored: str, build: Callable[[], str]) -> str | None:
    if spoken() == "en":
        return stored
    try:
        with speaking("en"):
            same = build() == stored
        return build() if same else None
    except (LookupError, TypeError, ValueError, AttributeError):
        return None


def _own(statistics: Values) -> Values:
    """The paired numbers of the metric that was to improve."""
    own: Values = statistics["metrics"][statistics["improvement"]["metric"]]
    return own


def _conclusion(statistics: Values) -> str:
    own, improvement, guards = _own(statistics), statistics["improvement"], statistics["guards"]
    if statistics["same_outputs"] == own["n"]:
        return _(
            "The adapter has no effect: all {n} outputs are the base model's own, word for word; "
            "look whether it was trained and loaded before anything else.",
            n=own["n"],
        )
    parts = [_about_improvement(own, improvement, statistics["seeds"])]
    parts += _about_guards(guards, improvement["verdict"] == "shown")
    variants = statistics["variants"]
    better = [name for name, variant in variants.items() if variant["better_than_control"]]
    if better:
        parts.append(_("{names} did better than the control", names=_listed(better)))
    elif variants:
        parts.append(_("no variant is shown to be better than the control, so the control stays"))
    return _("; ").join(parts) + "."


def _about_improvement(own: Values, improvement: Values, seeds: Values | None) -> str:
    numbers, by = _numbers(own, improvement, seeds), _("the registered {by}", by=_exact(improvement["by"]))
    if improvement["verdict"] == "shown":
        return _("Improvement shown: {numbers}, at least {by}", numbers=numbers, by=by)
    if improvement["verdict"] == "refuted":
        if own["high"] < 0:
            return _("The baseline stays best: {numbers}, so tuning made it worse", numbers=numbers)
        if own["low"] > 0:
            return _(
                "A small improvement, below {by}: {numbers}; by what was registered the baseline stays",
                by=by,
                numbers=numbers,
            )
        return _("The baseline stays best: {numbers}, which excludes an improvement of {by}", numbers=numbers, by=by)
    return _undecided(own, improvement, seeds, numbers, by)


def _undecided(own: Values, improvement: Values, seeds: Values | None, numbers: str, by: str) -> str:
    if own["difference"] == 0:
        return _(
            "Not decided: {numbers}; no difference was seen, and {by} is not excluded with so few rows",
            numbers=numbers,
            by=by,
        )
    if own["low"] > 0 and improvement["p_value"] < own["alpha"]:
        if seeds is not None and improvement["difference"] >= improvement["by"]:
            return _("Not decided: {numbers}; one seed alone shows it, the seeds together do not", numbers=numbers)
        return _("Not decided: {numbers}; it is a rise, but whether it reaches {by} is open", numbers=numbers, by=by)
    return _("Not decided: {numbers}; chance alone could do this, and {by} is not excluded", numbers=numbers, by=by)


def _numbers(own: Values, improvement: Values, seeds: Values | None) -> str:
    over = _("{n} rows", n=own["n"])
    if own["n_units"] != own["n"]:
        over = _("{n} rows in {groups} groups", n=own["n"], groups=own["n_units"])
    numbers = _(
        "{metric} went from {before} to {after} ({difference}, {level} interval {low} to {high}, {over})",
        metric=improvement["metric"],
        before=_rounded(own["before"]),
        after=_rounded(own["after"]),
        difference=_rounded(improvement["difference"], "+"),
        level=level(own["alpha"]),
        low=_rounded(improvement["low"], "+"),
        high=_rounded(improvement["high"], "+"),
        over=over,
    )
    if seeds is None:
        return numbers
    n = len(seeds["differences"])
    rose = _("all {n} rose", n=n) if seeds["rose"] == n else _("{k} of {n} rose", k=seeds["rose"], n=n)
    return _(
        "{numbers}, over {n} seeds {mean} on average, {rose}",
        numbers=numbers,
        n=n,
        mean=_rounded(seeds["mean"], "+"),
        rose=rose,
    )


def _about_guards(guards: Sequence[Values], shown: bool) -> list[str]:
    parts = []
    for guard in (guard for guard in guards if guard["verdict"] == "broken"):
        fell = {
            "metric": guard["metric"],
            "fall": _rounded(-guard["difference"]),
            "within": _exact(guard["within"]),
        }
        parts.append(
            _("but {metric} fell by {fall}, more than the {within} allowed", **fell)
            if shown
            else _("{metric} fell by {fall}, more than the {within} allowed", **fell)
        )
    undecidable = [guard for guard in guards if guard["verdict"] == "undecidable"]
    if undecidable:
        margins = sorted({f"{guard['within']:g}" for guard in undecidable})
        parts.append(
            _(
                "whether {names} stayed within {margins} cannot be decided with these rows",
                names=_listed([guard["metric"] for guard in undecidable]),
                margins=_listed([written(margin) for margin in margins]),
            )
        )
    if guards and not parts:
        names = _listed([guard["metric"] for guard in guards])
        parts.append(_("{names} stayed within the allowed margin", names=names))
    return parts


def _seeds_note(seeds: Values, alpha: float) -> str:
    n = len(seeds["differences"])
    if n == 1:
        return _("one seed: how much chance there is between seeds is not known")
    k = seeds["rose"]
    note = _("all {n} seeds rose", n=n) if k == n else _("{k} of {n} seeds rose", k=k, n=n)
    if (least := 2 / 2**n) < alpha:
        return note
    return _(
        "{note}; without assuming a bell curve {n} seeds cannot reach p < {alpha} (at best {least})",
        note=note,
        n=n,
        alpha=_exact(alpha),
        least=written(f"{least:.2g}"),
    )


def _rounded(value: float, sign: str = "") -> str:
    return written(f"{value:{sign}.3f}")


def _exact(value: float) -> str:
    return written(f"{value:g}")


def _listed(words: Sequence[str]) -> str:
    if len(words) == 1:
        return words[0]
    return _("{some} and {last}", some=", ".join(words[:-1]), last=words[-1])
