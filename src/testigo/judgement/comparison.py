"""The comparison of a campaign: baseline, control, variants and seeds on the same rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from testigo.errors import DataError
from testigo.judgement.classes import classes_of
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
from testigo.judgement.forgetting import GENERAL_LOSS
from testigo.judgement.lines import Line, Pairs, pair_up
from testigo.judgement.metric import compare_metric, fates, spread_of
from testigo.judgement.paired import Paired
from testigo.judgement.registered import Hypothesis
from testigo.judgement.results import Category, Clean, Comparison, Variant
from testigo.judgement.seeds import OverSeeds, are_carried


def compare(
    baseline: Sequence[Line],
    tuned: Sequence[Line],
    *,
    metrics: Mapping[str, str],
    hypothesis: Hypothesis,
    seed: int = 0,
    variants: Mapping[str, Sequence[Line]] | None = None,
    seeds: Mapping[int, Sequence[Line]] | None = None,
    unclean: Collection[str] | None = None,
    lost: Sequence[int] = (),
    lost_as: str = "failure",
) -> Comparison:
    """Compare a tuned model with its baseline, as registered.

    Parameters
    ----------
    baseline, tuned
        Prediction lines of the same rows, in any order.
    metrics
        Each metric's kind: "binary", "bounded", or "corpus" for one that no single row has, such as macro F1. Those
        of the hypothesis must be among them.
    seed
        Of the resampling, not of the training.
    variants
        Prediction lines of each variant. The control's own verdict is the registered one and is not corrected;
        the variants' are, over all of them and the control (Holm).
    seeds
        Prediction lines of the control under each of its seeds, the one of `tuned` among them.
    unclean
        Ids of rows with a copy or near copy among the training rows: the results are also given without them. None
        where nobody looked.
    lost, lost_as
        Seeds of the control that diverged, and what was declared that they count: `failure` or `bounds`.

    Raises
    ------
    DataError
        When the rows are not the same, or a metric is missing: the rows are named.
    """
    _check_metrics(metrics, hypothesis)
    pairs = pair_up(baseline, tuned, metrics, "the control")
    alpha, improve = hypothesis.alpha, hypothesis.improve
    results = {name: compare_metric(pairs, name, kind, alpha, seed) for name, kind in metrics.items()}
    own = improvement_of(results[improve.metric], improve.metric, improve.by, alpha)
    tried = _variants(baseline, tuned, variants or {}, metrics, hypothesis, own.p_value, seed)
    of_control = seeds or ({-1: tuned} if lost else {})
    spread = spread_of(
        baseline, of_control, improve.metric, metrics[improve.metric], alpha, seed, lost=lost, lost_as=lost_as
    )
    own = _hold_against_seeds(own, spread)
    guards = _guards(results, hypothesis)
    same = pairs.same_outputs
    return Comparison(
        baseline={name: paired.before for name, paired in results.items()},
        control={name: paired.after for name, paired in results.items()},
        metrics=results,
        improvement=own,
        guards=guards,
        categories=_categories(pairs, metrics, hypothesis, seed),
        rows=fates(pairs, improve.metric, metrics[improve.metric]),
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
        classes=classes_of(pairs.before, pairs.after) if "corpus" in metrics.values() else None,
        clean=None if unclean is None else _clean(pairs, unclean, metrics, hypothesis, seed),
    )


def _guards(results: Mapping[str, Paired], hypothesis: Hypothesis) -> tuple[Guard, ...]:
    """Of the metrics that rows have; that of general text is judged apart, in `forgetting`."""
    own = [keep for keep in hypothesis.keep if keep.metric in results]
    return tuple(guard_of(results[keep.metric], keep.metric, keep.within) for keep in own)


def _clean(
    pairs: Pairs, unclean: Collection[str], metrics: Mapping[str, str], hypothesis: Hypothesis, seed: int
) -> Clean:
    alpha, improve = hypothesis.alpha, hypothesis.improve
    left_out = tuple(sorted(set(unclean) & set(pairs.ids)))
    kept = pairs.without(left_out)
    if not len(kept):
        return Clean(0, left_out, {}, None)
    results = {name: compare_metric(kept, name, kind, alpha, seed) for name, kind in metrics.items()}
    return Clean(len(kept), left_out, results, decide_improvement(results[improve.metric], improve.by, alpha))


def _check_metrics(metrics: Mapping[str, str], hypothesis: Hypothesis) -> None:
    wanted = [hypothesis.improve.metric, *(keep.metric for keep in hypothesis.keep if keep.metric != GENERAL_LOSS)]
    unknown = [name for name in wanted if name not in metrics]
    if unknown:
        raise DataError(
            expected=f"metrics of the task: {', '.join(metrics)}",
            found=", ".join(unknown),
            where="hypothesis",
            action="name one of the task's metrics",
        )


def _categories(pairs: Pairs, metrics: Mapping[str, str], hypothesis: Hypothesis, seed: int) -> dict[str, Category]:
    names = sorted(set(pairs.categories) - {""})
    parts = {name: pairs.only(name) for name in names}
    results = {
        name: {metric: compare_metric(part, metric, kind, hypothesis.alpha, seed) for metric, kind in metrics.items()}
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
        on_baseline[name] = {
            metric: compare_metric(pairs, metric, kind, alpha, seed) for metric, kind in metrics.items()
        }
        beside = pair_up(control, lines, metrics, name)
        on_control[name] = compare_metric(beside, improve.metric, metrics[improve.metric], alpha, seed)
    against_baseline = holm([control_p, *(found[improve.metric].p_value for found in on_baseline.values())])[1:]
    against_control = holm([paired.p_value for paired in on_control.values()])
    return {
        name: Variant(
            values={metric: paired.after for metric, paired in on_baseline[name].items()},
            improvement=improvement_of(on_baseline[name][improve.metric], improve.metric, improve.by, alpha, p),
            guards=_guards(on_baseline[name], hypothesis),
            against_control=on_control[name],
            better_than_control=q < alpha and on_control[name].low > 0,
        )
        for name, p, q in zip(variants, against_baseline, against_control, strict=True)
    }


def _hold_against_seeds(own: Improvement, seeds: OverSeeds | None) -> Improvement:
    """An improvement of one seed is not *shown* when the seeds together do not carry it."""
    if own.verdict != "shown" or seeds is None or are_carried(seeds, own.by):
        return own
    return replace(own, verdict="not decided")
