"""The verdict of the first screen: a badge, a sentence, and the limits that were observed. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from testigo.dossier import units
from testigo.dossier.beside import verdicts_beside
from testigo.dossier.language import _, counted
from testigo.dossier.missing import FINISHED, missing_told, stopped_by
from testigo.dossier.record import Comparison, Record
from testigo.dossier.retelling import told
from testigo.dossier.sentence import conclusion_told

Tone = Literal["good", "bad", "open", "none"]
_FEW_ROWS = 30
_NAMED = 5


@dataclass(frozen=True)
class Badge:
    """The verdict in a few words. The tone is never told by colour alone: the words carry it."""

    tone: Tone
    words: str


@dataclass(frozen=True)
class Limit:
    """Something that this dossier does not show. A grave one undermines the verdict itself."""

    text: str
    grave: bool = False


def badge(record: Record) -> Badge:
    """The verdict: shown only when the improvement is shown and every guard is kept."""
    if record.ledger.faults or (record.comparison and record.comparison.recomputed is False):
        return Badge("bad", _("Not to be relied on"))
    if record.comparison is None:
        return Badge("bad", _("Stopped by a gate")) if stopped_by(record) else Badge("none", _("No comparison"))
    verdict = improvement(record).get("verdict")
    verdicts = [*(guard.get("verdict") for guard in guards(record)), *verdicts_beside(record)]
    if verdict == "refuted":
        return Badge("bad", _("Improvement refuted"))
    if verdict != "shown":
        return Badge("open", _("Not decided"))
    if any(v == "broken" for v in verdicts):
        return Badge("bad", _("Improved, but a guard is broken"))
    if any(v != "kept" for v in verdicts):
        return Badge("open", _("Improved, a guard is undecided"))
    return Badge("good", _("Improvement shown"))


def sentence(record: Record) -> str:
    """The conclusion in one plain sentence."""
    if record.ledger.faults:
        return _(
            "The ledger's chain is broken, so nothing below can be trusted: {fault}",
            fault=told(record.ledger.faults[0]),
        )
    comparison = record.comparison
    if comparison is None:
        why = next(
            (m.why for m in missing_told(record) if m.part in ("comparison", _("comparison"))), _("it was not run")
        )
        return _("There is no comparison with the unadapted model: {why}.", why=why)
    if comparison.recomputed is False:
        return _(
            "The statistics could not be found again from the predictions: {first}.",
            first=told(comparison.differences[0]),
        )
    stored = comparison.statistics.get("conclusion")
    return conclusion_told(comparison.statistics) or str(stored or _("The comparison carries no conclusion."))


def after_badge(sentence: str, badge: Badge) -> str:
    """The sentence without the badge's words where it begins with them: they stand above it."""
    return re.sub(rf"^{re.escape(badge.words)}\s*:\s+", "", sentence)


def improvement(record: Record) -> Mapping[str, Any]:
    """The improvement's statistics, empty without a comparison."""
    value = record.comparison.statistics.get("improvement") if record.comparison else None
    return value if isinstance(value, Mapping) else {}


def guards(record: Record) -> list[Mapping[str, Any]]:
    """Each guard's statistics, empty without a comparison."""
    value = record.comparison.statistics.get("guards") if record.comparison else None
    return [guard for guard in value if isinstance(guard, Mapping)] if isinstance(value, list) else []


def categories(record: Record) -> list[tuple[str, Mapping[str, Any]]]:
    """The categories of the comparison with their statistics."""
    value = record.comparison.statistics.get("categories") if record.comparison else None
    return [(str(k), v) for k, v in value.items() if isinstance(v, Mapping)] if isinstance(value, Mapping) else []


def values(record: Record, metric: str) -> tuple[float | None, float | None]:
    """A metric before and after, as shares."""
    statistics = record.comparison.statistics if record.comparison else {}
    pair = [statistics.get(side) for side in ("baseline", "control")]
    before, after = (side.get(metric) if isinstance(side, Mapping) else None for side in pair)
    return record.baseline.get(metric) if before is None else before, after


def false_alarm(record: Record) -> float | None:
    """The chance of a false improvement after repeated openings of the test, at most (Bonferroni's inequality)."""
    n = len(record.openings)
    return min(1.0, n * record.hypothesis.alpha) if n > 1 else None


def limits(record: Record) -> tuple[Limit, ...]:
    """What was not checked and what cannot be concluded, gravest first."""
    found = [*_grave(record), *_of_the_comparison(record), *_of_the_process(record)]
    return tuple(sorted(found, key=lambda limit: not limit.grave))


def _grave(record: Record) -> Iterable[Limit]:
    for fault in record.ledger.faults:
        yield Limit(_("The ledger is not whole: {fault}", fault=told(fault)), grave=True)
    for missing in missing_told(record):
        yield Limit(_("Missing, {part}: {why}.", part=missing.part, why=missing.why), grave=True)
    comparison = record.comparison
    if comparison and comparison.recomputed is False:
        first = told(comparison.differences[0])
        yield Limit(
            _("Recomputing the statistics from the predictions gave other numbers: {first}.", first=first), grave=True
        )
    frozen = [amendment.identity for amendment in record.amendments if amendment.identity]
    frozen = frozen or ([record.registration.identity] if record.registration else [])
    if frozen and frozen[-1] not in ("", record.plan.identity):
        yield Limit(_("The campaign file is not the one that was registered, and no amendment says why."), grave=True)


def _of_the_comparison(record: Record) -> Iterable[Limit]:
    comparison = record.comparison
    if comparison is None:
        return
    if comparison.split == "validation" and not record.openings:
        yield Limit(
            _(
                "The numbers come from the validation rows, on which the checkpoint was chosen; "
                "the sealed test has not been opened."
            )
        )
    if (chance := false_alarm(record)) is not None:
        yield Limit(
            _(
                "The sealed test was opened {n} times: the chance of a false improvement may have grown "
                "from {alpha} to {chance}.",
                n=len(record.openings),
                alpha=units.share(record.hypothesis.alpha),
                chance=units.share(chance),
            ),
            grave=True,
        )
    price = comparison.statistics.get("openings")
    if isinstance(price, Mapping) and isinstance(price.get("openings"), int) and price["openings"] > 1:
        yield Limit(
            _(
                "Corrected for {n} openings of the test (Holm), the p-value of the improvement rises from {p} to {q}.",
                n=price["openings"],
                p=units.probability(price["p_value"]),
                q=units.probability(price["corrected_p_value"]),
            ),
            grave=True,
        )
        if price.get("verdict") != improvement(record).get("verdict"):
            yield Limit(_("At the corrected value the improvement is no longer shown."), grave=True)
    if comparison.detectable_effect is not None and improvement(record).get("verdict") != "shown":
        yield Limit(
            _(
                "These rows show a difference of {effect} in four cases of five; a smaller one would often be missed.",
                effect=units.points(comparison.detectable_effect, sign=False),
            )
        )
    if any(_is_untrained(one.settings) for one in record.predictions if one.of == "baseline"):
        yield Limit(
            _(
                "The base came without a class head that was ever trained: before training its answers are those of "
                "chance, and the difference includes that the head was learned at all."
            )
        )
    yield from _of_copies(comparison)
    small = [name for name, facts in categories(record) if (facts.get("n") or 0) < _FEW_ROWS]
    if small:
        yield Limit(_("Fewer than {n} rows, too few to conclude from, in: {names}.", n=_FEW_ROWS, names=_listed(small)))
    yield from _of_the_seeds(record, comparison.run)
    yield Limit(
        _(
            "It holds for rows like those of the evaluation split; other domains, languages and abilities "
            "were not measured."
        )
    )


def _is_untrained(settings: Mapping[str, Any]) -> bool:
    """Whether predictions were made with a class head that was new."""
    return str(settings.get("head", "")).startswith("new")


def _of_copies(comparison: Comparison) -> Iterable[Limit]:
    """Rows that training had seen, where the verdict rests on them."""
    clean = comparison.statistics.get("clean")
    if not isinstance(clean, Mapping) or not clean.get("left_out"):
        return
    own = comparison.statistics.get("improvement") or {}
    if own.get("verdict") == "shown" and clean.get("verdict") != "shown":
        n = len(clean["left_out"])
        yield Limit(
            _("Without the {n} evaluated rows that have copies in training, the improvement is not shown.", n=n),
            grave=True,
        )


def _of_the_seeds(record: Record, run: str) -> Iterable[Limit]:
    finished = [one for one in record.runs if one.variant == "control" and one.state in FINISHED]
    if len(finished) == 1:
        yield Limit(_("One seed was trained: how much another seed would change the result was not measured."))
    elif len(finished) > 1 and run:
        yield Limit(
            _("Intervals are those of one run, {run}; the other seeds are given beside it, not pooled.", run=run)
        )


def _of_the_process(record: Record) -> Iterable[Limit]:
    gates = record.gates
    if gates and gates.not_checked:
        codes = ", ".join(sorted({item.code for item in gates.not_checked}))
        n = len(gates.not_checked)
        one = _("1 check of the pilot could not be made ({codes}); see Gates for why.", codes=codes)
        many = _("{n} checks of the pilot could not be made ({codes}); see Gates for why.", n=n, codes=codes)
        yield Limit(one if n == 1 else many)
    if record.data and not record.data.samples:
        yield Limit(_("Nobody was asked to confirm what the model sees before training."))
    elif record.data and record.data.samples == "nobody looked: there was no terminal to ask on":
        yield Limit(_("Nobody looked at what the model sees before training: there was no terminal to ask on."))
    elif record.data and record.data.samples.startswith("nobody"):
        yield Limit(_("Nobody looked at what the model sees before training: the question was answered by --yes."))
    elif record.data and record.data.samples.endswith("after training had begun"):
        yield Limit(_("What the model sees was confirmed after training had begun."))
    lost = [run for run in record.runs if run.state not in FINISHED]
    if lost and len(lost) < len(record.runs):
        named = _listed([f"{run.id} {told(run.state)}" for run in lost])
        yield Limit(
            counted(
                "{n} of {all} runs did not finish: {named}.",
                "{n} of {all} runs did not finish: {named}.",
                len(lost),
                all=len(record.runs),
                named=named,
            )
        )
    for prediction in record.predictions:
        longest = prediction.settings.get("max_new_tokens")
        if record.comparison and prediction.file == record.comparison.tuned_file and longest:
            yield Limit(_("Outputs are greedy and cut at {n} new tokens; sampling was not measured.", n=longest))


def _listed(names: Sequence[str]) -> str:
    """The first names; the rest is counted, and its table stands further down."""
    rest = len(names) - _NAMED
    return ", ".join(names) if rest <= 1 else _("{some} and {n} more", some=", ".join(names[:_NAMED]), n=rest)
