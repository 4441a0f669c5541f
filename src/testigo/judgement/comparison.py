"""The comparison of a campaign: baseline, control, variants and seeds on the same rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from testigo.errors import DataError
from testigo.judgement.conclusion import conclude
from testigo.judgement.decision import (
    Guard,
    Improvement,
    decide_guard,
    decide_improvement,
    guard_of,
    holm,
    improvement_of,
)
from testigo.judgement.lines import Line, Pairs, pair_up
from testigo.judgement.paired import Paired, compare_paired, units_of
from testigo.judgement.seeds import SEEDS_FOR_BOTH, OverSeeds, over_seeds, two_way_interval
from testigo.judgement.units import Floats


class Improve(Protocol):
    """The registered improvement."""

    @property
    def metric(self) -> str:
        """Its name."""
        ...

    @property
    def by(self) -> float:
        """The smallest improvement that matters, a share."""
        ...


class Keep(Protocol):
    """A registered guard."""

    @property
    def metric(self) -> str:
        """Its name."""
        ...

    @property
    def within(self) -> float:
        """The fall that is allowed, a share."""
        ...


class Hypothesis(Protocol):
    """What was registered: `campaign.hypothesis`."""

    @property
    def improve(self) -> Improve:
        """What must rise."""
        ...

    @property
    def keep(self) -> Sequence[Keep]:
        """What must not fall."""
        ...

    @property
    def alpha(self) -> float:
        """The chance of a false *shown* that was accepted."""
        ...


@dataclass(frozen=True)
class Category:
    """One category: its metrics, and a verdict for each. p-values are corrected over the categories."""

    n: int
    metrics: dict[str, Paired]
    verdicts: dict[str, str]

    def to_json(self) -> dict[str, Any]:
        """Paired numbers and verdict of each metric."""
        metrics = {name: {**paired.to_json(), "verdict": self.verdicts[name]} for name, paired in self.metrics.items()}
        return {"n": self.n, "metrics": metrics}


@dataclass(frozen=True)
class Variant:
    """One variant against the baseline and against the control. p-values are corrected over the variants."""

    values: dict[str, float]
    improvement: Improvement
    guards: tuple[Guard, ...]
    against_control: Paired
    better_than_control: bool

    def to_json(self) -> dict[str, Any]:
        """Its metric values by name, and beside them what they mean."""
        return {
            **self.values,
            "improvement": self.improvement.to_json(),
            "guards": [guard.to_json() for guard in self.guards],
            "against_control": self.against_control.to_json(),
            "better_than_control": self.better_than_control,
        }


@dataclass(frozen=True)
class Comparison:
    """All that a comparison says. `rows` are about the metric that was to improve."""

    baseline: dict[str, float]
    control: dict[str, float]
    metrics: dict[str, Paired]
    improvement: Improvement
    guards: tuple[Guard, ...]
    categories: dict[str, Category]
    rows: dict[str, tuple[str, ...]]
    same_outputs: int
    conclusion: str
    variants: dict[str, Variant] = field(default_factory=dict)
    seeds: OverSeeds | None = None

    def to_json(self) -> dict[str, Any]:
        """The document that `testigo compare --json` prints."""
        return {
            "baseline": self.baseline,
            "control": self.control,
            "improvement": self.improvement.to_json(),
            "guards": [guard.to_json() for guard in self.guards],
            "metrics": {name: paired.to_json() for name, paired in self.metrics.items()},
            "categories": {name: category.to_json() for name, category in self.categories.items()},
            "rows": {name: list(ids) for name, ids in self.rows.items()},
            "same_outputs": self.same_outputs,
            "conclusion": self.conclusion,
            "variants": {name: variant.to_json() for name, variant in self.variants.items()},
            "seeds": self.seeds.to_json() if self.seeds else None,
        }


def compare(
    baseline: Sequence[Line],
    tuned: Sequence[Line],
    *,
    metrics: Mapping[str, str],
    hypothesis: Hypothesis,
    seed: int = 0,
    variants: Mapping[str, Sequence[Line]] | None = None,
    seeds: Mapping[int, Sequence[Line]] | None = None,
) -> Comparison:
    """Compare a tuned model with its baseline, as registered.

    Parameters
    ----------
    baseline, tuned
        Prediction lines of the same rows, in any order.
    metrics
        Each metric's kind, "binary" or "bounded"; those of the hypothesis must be among them.
    seed
        Of the resampling, not of the training.
    variants
        Prediction lines of each variant. The control's own verdict is the registered one and is not corrected;
        the variants' are, over all of them and the control (Holm).
    seeds
        Prediction lines of the control under each of its seeds, the one of `tuned` among them.

    Raises
    ------
    DataError
        When the rows are not the same, or a metric is missing: the rows are named.
    """
    _check_metrics(metrics, hypothesis)
    pairs = pair_up(baseline, tuned, metrics, "the control")
    alpha, improve = hypothesis.alpha, hypothesis.improve
    results = {name: _compare(pairs, name, kind, alpha, seed) for name, kind in metrics.items()}
    own = improvement_of(results[improve.metric], improve.metric, improve.by, alpha)
    tried = _variants(baseline, tuned, variants or {}, metrics, hypothesis, own.p_value, seed)
    spread = _seeds(baseline, seeds or {}, metrics, hypothesis, seed)
    own = _hold_against_seeds(own, spread)
    guards = tuple(guard_of(results[keep.metric], keep.metric, keep.within) for keep in hypothesis.keep)
    same = pairs.same_outputs
    return Comparison(
        baseline={name: paired.before for name, paired in results.items()},
        control={name: paired.after for name, paired in results.items()},
        metrics=results,
        improvement=own,
        guards=guards,
        categories=_categories(pairs, metrics, hypothesis, seed),
        rows=_rows(pairs, improve.metric),
        same_outputs=same,
        conclusion=conclude(
            results[improve.metric],
            own,
            guards,
            same_outputs=same == len(pairs),
            better_variants=[name for name, variant in tried.items() if variant.better_than_control],
            variants=len(tried),
            seeds=spread,
        ),
        variants=tried,
        seeds=spread,
    )


def _check_metrics(metrics: Mapping[str, str], hypothesis: Hypothesis) -> None:
    wanted = [hypothesis.improve.metric, *(keep.metric for keep in hypothesis.keep)]
    unknown = [name for name in wanted if name not in metrics]
    if unknown:
        raise DataError(
            expected=f"metrics of the task: {', '.join(metrics)}",
            found=", ".join(unknown),
            where="hypothesis",
            action="name one of the task's metrics",
        )


def _compare(pairs: Pairs, metric: str, kind: str, alpha: float, seed: int) -> Paired:
    before, after = ([line["scores"][metric] for line in lines] for lines in (pairs.before, pairs.after))
    try:
        return compare_paired(before, after, kind=kind, groups=pairs.groups, alpha=alpha, seed=seed)
    except ValueError as error:
        raise DataError(
            expected=f"scores of {metric} as a {kind} metric has them",
            found=str(error),
            where="predictions",
            action="evaluate again; if the scores are your own, keep them between 0 and 1",
        ) from error


def _categories(pairs: Pairs, metrics: Mapping[str, str], hypothesis: Hypothesis, seed: int) -> dict[str, Category]:
    names = sorted(set(pairs.categories) - {""})
    parts = {name: pairs.only(name) for name in names}
    results = {
        name: {metric: _compare(part, metric, kind, hypothesis.alpha, seed) for metric, kind in metrics.items()}
        for name, part in parts.items()
    }
    verdicts: dict[str, dict[str, str]] = {name: {} for name in names}
    for metric in metrics:
        corrected = holm([results[name][metric].p_value for name in names])
        for name, p in zip(names, corrected, strict=True):
            verdicts[name][metric] = _category_verdict(results[name][metric], metric, hypothesis, p)
    return {name: Category(len(parts[name]), results[name], verdicts[name]) for name in names}


def _category_verdict(paired: Paired, metric: str, hypothesis: Hypothesis, p: float) -> str:
    """Improvement and guards in the words of the hypothesis; any other metric rose, fell, or neither was shown."""
    if metric == hypothesis.improve.metric:
        return decide_improvement(paired, hypothesis.improve.by, hypothesis.alpha, p_value=p)
    for keep in hypothesis.keep:
        if keep.metric == metric:
            return decide_guard(paired, keep.within)
    if p < hypothesis.alpha and (paired.low > 0 or paired.high < 0):
        return "rose" if paired.difference > 0 else "fell"
    return "not decided"


def _variants(
    baseline: Sequence[Line],
    control: Sequence[Line],
    variants: Mapping[str, Sequence[Line]],
    metrics: Mapping[str, str],
    hypothesis: Hypothesis,
    control_p: float,
    seed: int,
) -> dict[str, Variant]:
    alpha, improve = hypothesis.alpha, hypothesis.improve
    on_baseline: dict[str, dict[str, Paired]] = {}
    on_control: dict[str, Paired] = {}
    for name, lines in variants.items():
        pairs = pair_up(baseline, lines, metrics, name)
        on_baseline[name] = {metric: _compare(pairs, metric, kind, alpha, seed) for metric, kind in metrics.items()}
        beside = pair_up(control, lines, metrics, name)
        on_control[name] = _compare(beside, improve.metric, metrics[improve.metric], alpha, seed)
    against_baseline = holm([control_p, *(found[improve.metric].p_value for found in on_baseline.values())])[1:]
    against_control = holm([paired.p_value for paired in on_control.values()])
    return {
        name: Variant(
            values={metric: paired.after for metric, paired in on_baseline[name].items()},
            improvement=improvement_of(on_baseline[name][improve.metric], improve.metric, improve.by, alpha, p),
            guards=tuple(
                guard_of(on_baseline[name][keep.metric], keep.metric, keep.within) for keep in hypothesis.keep
            ),
            against_control=on_control[name],
            better_than_control=q < alpha and on_control[name].low > 0,
        )
        for name, p, q in zip(variants, against_baseline, against_control, strict=True)
    }


def _seeds(
    baseline: Sequence[Line],
    seeds: Mapping[int, Sequence[Line]],
    metrics: Mapping[str, str],
    hypothesis: Hypothesis,
    seed: int,
) -> OverSeeds | None:
    """All seeds' differences of the registered metric, None when there is only one seed."""
    if len(seeds) < 2:
        return None
    metric = hypothesis.improve.metric
    rises: dict[int, Floats] = {}
    for number, lines in seeds.items():
        pairs = pair_up(baseline, lines, metrics, f"seed {number}")
        before, after = ([line["scores"][metric] for line in side] for side in (pairs.before, pairs.after))
        rises[number] = np.asarray(after, dtype=np.float64) - np.asarray(before, dtype=np.float64)
    found = over_seeds(metric, {number: float(rise.mean()) for number, rise in rises.items()}, hypothesis.alpha)
    if len(rises) < SEEDS_FOR_BOTH:
        return found
    units = [units_of(rise, pairs.groups) for rise in rises.values()]
    sums = np.stack([sums for sums, _ in units])  # (S, U)
    low, high = two_way_interval(sums, units[0][1], hypothesis.alpha, seed)
    return replace(found, both_low=low, both_high=high)


def _hold_against_seeds(own: Improvement, seeds: OverSeeds | None) -> Improvement:
    """An improvement of one seed is not *shown* when the seeds together do not carry it.

    Their mean must be at least `by`, and either all must rise or, from six seeds on, their t interval lie above zero.
    """
    if own.verdict != "shown" or seeds is None:
        return own
    count = len(seeds.differences)
    certain = seeds.rose == count or (count >= 6 and seeds.low is not None and seeds.low > 0)
    if certain and seeds.mean >= own.by - 1e-9:
        return own
    return replace(own, verdict="not decided")


def _rows(pairs: Pairs, metric: str) -> dict[str, tuple[str, ...]]:
    """Row ids by what became of them in the registered metric."""
    rows: dict[str, list[str]] = {"fixed": [], "broken": [], "both_right": [], "both_wrong": []}
    for id, old, new in zip(pairs.ids, pairs.before, pairs.after, strict=True):
        before, after = old["scores"][metric], new["scores"][metric]
        changed = "fixed" if after > before else "broken"
        rows[changed if after != before else "both_right" if after == 1 else "both_wrong"].append(id)
    return {name: tuple(ids) for name, ids in rows.items()}
