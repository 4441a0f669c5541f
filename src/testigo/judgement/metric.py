"""One metric of paired rows, whatever its kind: from the scores of rows, or from all targets and outputs together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from testigo.errors import DataError
from testigo.judgement.bootstrap import Floats
from testigo.judgement.corpus_metric import Counts, compare_corpus, counts_of
from testigo.judgement.lines import Line, Pairs, answer_of, pair_up
from testigo.judgement.paired import Paired, compare_paired, units_of
from testigo.judgement.seeds import (
    SEEDS_FOR_BOTH,
    OverSeeds,
    over_seeds,
    two_way_interval,
    two_way_interval_of_counts,
    with_lost,
)


def compare_metric(pairs: Pairs, metric: str, kind: str, alpha: float, seed: int) -> Paired:
    """Before and after of one metric.

    Raises
    ------
    DataError
        When the lines do not hold what a metric of this kind needs.
    """
    try:
        if kind == "corpus":
            before, after = ([answer_of(line) for line in side] for side in (pairs.before, pairs.after))
            return compare_corpus(
                pairs.targets, before, after, metric=metric, groups=pairs.groups, alpha=alpha, seed=seed
            )
        old, new = ([line["scores"][metric] for line in side] for side in (pairs.before, pairs.after))
        return compare_paired(old, new, kind=kind, groups=pairs.groups, alpha=alpha, seed=seed)
    except ValueError as error:
        raise DataError(
            expected=f"scores of {metric} as a {kind} metric has them",
            found=str(error),
            where="predictions",
            action="evaluate again; if the scores are your own, keep them between 0 and 1",
        ) from error


def value_of(lines: Sequence[Line], metric: str, kind: str) -> float:
    """One metric of one side: the mean of the rows' scores, or what all rows together have."""
    if kind != "corpus":
        return float(np.mean([line["scores"][metric] for line in lines]))
    targets = [str(line["target"]) for line in lines]
    return counts_of(targets, [answer_of(line) for line in lines], None, sorted(set(targets))).macro_f1


def fates(pairs: Pairs, metric: str, kind: str) -> dict[str, tuple[str, ...]]:
    """Row ids by what became of them in a metric; of one that rows do not have, in being right."""
    rows: dict[str, list[str]] = {"fixed": [], "broken": [], "both_right": [], "both_wrong": []}
    for id, old, new in zip(pairs.ids, pairs.before, pairs.after, strict=True):
        before, after = _score(old, metric, kind), _score(new, metric, kind)
        changed = "fixed" if after > before else "broken"
        rows[changed if after != before else "both_right" if after == 1 else "both_wrong"].append(id)
    return {name: tuple(ids) for name, ids in rows.items()}


def spread_of(
    baseline: Sequence[Line],
    seeds: Mapping[int, Sequence[Line]],
    metric: str,
    kind: str,
    alpha: float,
    seed: int,
    *,
    lost: Sequence[int] = (),
    lost_as: str = "failure",
) -> OverSeeds | None:
    """All seeds' differences of one metric, with those that diverged; None when there is only one seed."""
    if len(seeds) + len(lost) < 2 or not seeds:
        return None
    found = _spread_of(baseline, seeds, metric, kind, alpha, seed)
    if not lost:
        return found
    return with_lost(metric, found.differences, value_of(baseline, metric, kind), lost, lost_as, alpha)


def _spread_of(
    baseline: Sequence[Line], seeds: Mapping[int, Sequence[Line]], metric: str, kind: str, alpha: float, seed: int
) -> OverSeeds:
    pairs = {number: pair_up(baseline, lines, {metric: kind}, f"seed {number}") for number, lines in seeds.items()}
    if kind == "corpus":
        return _spread_of_corpus(list(pairs.values()), list(pairs), metric, alpha, seed)
    rises: dict[int, Floats] = {}
    for number, pair in pairs.items():
        before, after = ([line["scores"][metric] for line in side] for side in (pair.before, pair.after))
        rises[number] = np.asarray(after, dtype=np.float64) - np.asarray(before, dtype=np.float64)
    found = over_seeds(metric, {number: float(rise.mean()) for number, rise in rises.items()}, alpha)
    if len(rises) < SEEDS_FOR_BOTH:
        return found
    units = [units_of(rise, pairs[number].groups) for number, rise in rises.items()]
    sums = np.stack([sums for sums, _ in units])  # (S, U)
    low, high = two_way_interval(sums, units[0][1], alpha, seed)
    return replace(found, both_low=low, both_high=high)


def _spread_of_corpus(
    pairs: Sequence[Pairs], numbers: Sequence[int], metric: str, alpha: float, seed: int
) -> OverSeeds:
    before = _counts(pairs[0], pairs[0].before)
    after = [_counts(pair, pair.after) for pair in pairs]
    rises = {number: one.macro_f1 - before.macro_f1 for number, one in zip(numbers, after, strict=True)}
    found = over_seeds(metric, rises, alpha)
    if len(after) < SEEDS_FOR_BOTH:
        return found
    low, high = two_way_interval_of_counts(before.values, np.stack([one.values for one in after]), alpha, seed)
    return replace(found, both_low=low, both_high=high)


def _counts(pairs: Pairs, side: Sequence[Line]) -> Counts:
    classes = sorted(set(pairs.targets))
    return counts_of(pairs.targets, [answer_of(line) for line in side], pairs.groups, classes)


def _score(line: Line, metric: str, kind: str) -> float:
    return float(answer_of(line) == line["target"]) if kind == "corpus" else float(line["scores"][metric])
