"""Evidence about the three splits, read off the corpus's manifest, and the rules over it (codes D14x).

The sealed rows are never read for it: the manifest counted them when they were split.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from testigo.gates.measured import names, need
from testigo.rules import Finding, Passed, found, passed, rule

_EVALUATING = ("validation", "test")


@dataclass(frozen=True, kw_only=True)
class SplitEvidence:
    """What the manifest says of the splits. `None` means that it does not say."""

    unit: str | None = None
    """What is never torn apart, in a word: patient, document, row."""
    rows: dict[str, int] | None = None
    """Rows of each split: {"train": 400, "validation": 80, "test": 80}."""
    categories: dict[str, dict[str, int]] | None = None
    """Rows of each split by category: {"train": {"shop": 200}, …}; no category is called ""."""
    shares: dict[str, tuple[float, float]] | None = None
    """Split -> its declared share and the one that it has, 0 to 1; empty where no share is declared."""
    better_seed: int | None = None
    """A seed whose split comes nearer to the shares; None where none is needed or known."""
    largest: dict[str, int] | None = None
    """Rows of the largest unit of each split that was made by shares or time."""
    moved: str | None = None
    """Why fixed cuts were moved; "" when they were not."""
    compared: dict[str, int] | None = None
    """What was compared across the finished splits, and how many: {"ids": 560, "groups": 140, "periods": 3}."""
    across: dict[str, tuple[str, ...]] | None = None
    """Of each of these what straddles the splits, by name."""


def splits_from(manifest: Mapping[str, Any]) -> SplitEvidence:
    """The evidence that a corpus's manifest holds."""
    splits, told = manifest["splits"], manifest.get("split", {})
    proofs = {kind: proof for kind, proof in told.get("proofs", {}).items() if kind in ("ids", "groups", "periods")}
    return SplitEvidence(
        unit=told.get("unit"),
        rows={name: int(facts["rows"]) for name, facts in splits.items()},
        categories={name: dict(facts["categories"]) for name, facts in splits.items()},
        shares={name: (float(one), float(other)) for name, (one, other) in told.get("shares", {}).items()},
        better_seed=told.get("better_seed"),
        largest={name: int(facts["rows"]) for name, facts in told.get("largest", {}).items()},
        moved=str(told.get("moved", "")),
        compared={kind: int(proof["compared"]) for kind, proof in proofs.items()} if proofs else None,
        across={kind: tuple(proof["across"]) for kind, proof in proofs.items()} if proofs else None,
    )


@rule("D141", "share-missed", "note", phase="data")
def shares_are_near(evidence: SplitEvidence, within: float = 0.05) -> Finding | Passed:
    """Each split has about the share of the rows that the campaign declares.

    Why it matters: with fixed cuts each group's split follows from its name alone, so that added rows move none; shares
    then hold by chance. An evaluation set that came out small detects less.

    What to do: put the named seed into `data.split.seed` before the first run; or set `cuts: fitted` when no rows will
    be added; or leave it, when the detectable difference is small enough.

    Source: of n groups a share s has the standard error sqrt(s (1 - s) / n) (binomial); the limit is a choice of ours.
    """
    shares = need(evidence.shares, "the shares of the splits")
    told = ", ".join(f"{name} {has:.1%} of {share:.1%}" for name, (share, has) in shares.items())
    if any(abs(has - share) > within for share, has in shares.values()):
        better = (
            "" if evidence.better_seed is None else f"; `seed: {evidence.better_seed}` comes nearest of those tried"
        )
        return found(f"rows by split, of what is declared: {told}{better}")
    return passed(told or "no share is declared: the splits are files or periods")


@rule("D142", "category-not-evaluated", "warn", phase="data")
def categories_are_evaluated(evidence: SplitEvidence, at_least: int = 20) -> Finding | Passed:
    """Each category that has enough rows has some in every split.

    Why it matters: a category without evaluation rows has no result of its own, and one without training rows is
    judged without having been learned.

    What to do: put the named seed into `data.split.seed`, set `cuts: fitted`, or collect rows of more groups in the
    named categories.

    Source: by definition of a result per category; the number of rows is a choice of ours (a share of 15 % of 20 rows
    is 3).
    """
    splits = need(evidence.categories, "rows by category")
    total: dict[str, int] = {}
    for counts in splits.values():
        for category, n in counts.items():
            total[category] = total.get(category, 0) + n
    lacking = [
        f"{category} in {name}"
        for category, n in sorted(total.items())
        for name, counts in splits.items()
        if category and n >= at_least and not counts.get(category)
    ]
    if lacking:
        better = "" if evidence.better_seed is None else f"; `seed: {evidence.better_seed}` spreads them better"
        return found(f"no rows of {names(lacking)}{better}")
    categories = [category for category in total if category]
    return passed(f"{len(categories)} categories, each in every split" if categories else "no category is named")


@rule("D143", "unit-fills-split", "warn", phase="data")
def no_unit_fills_a_split(evidence: SplitEvidence, most: float = 0.5) -> Finding | Passed:
    """No single group makes up most of the rows that examine the model.

    Why it matters: rows of one customer, patient or document are no independent cases; a result over them says how the
    model does on that one. A group that is larger than a split's share also takes the split's place.

    What to do: try another `data.split.seed` (the named one, if any) so that the large group trains; name a finer
    `data.group`; look at what joined the groups when several are one unit (`testigo check --json`, near-duplicates).

    Source: Miller 2024, "Adding error bars to evals" (clustered questions), arXiv 2411.00640; the limit is a choice of
    ours.
    """
    largest, rows = need(evidence.largest, "the largest units"), need(evidence.rows, "rows by split")
    unit = evidence.unit or "group"
    full = [
        f"{n} of the {rows[name]} rows of {name}"
        for name, n in largest.items()
        if name in _EVALUATING and n > most * rows[name] and n > 1
    ]
    if full:
        better = "" if evidence.better_seed is None else f"; `seed: {evidence.better_seed}` may place it elsewhere"
        return found(f"one {unit}, or several that are joined, has {' and '.join(full)}{better}")
    told = ", ".join(f"{n} of {rows[name]} rows in {name}" for name, n in largest.items())
    return passed(f"the largest {unit} has {told}" if told else "the splits are given files")


@rule("D144", "splits-not-apart", "stop", phase="data")
def splits_are_apart(evidence: SplitEvidence) -> Finding | Passed:
    """No id, no group and no period lies in two splits, the sealed test included.

    Why it matters: what stands on both sides is learned on the one and asked on the other.

    What to do: delete the corpus's folder and run the command again to build it anew; with given files, move the named
    rows into one file.

    Source: Kapoor and Narayanan 2023, "Leakage and the reproducibility crisis in machine-learning-based science".
    """
    compared, across = need(evidence.compared, "what straddles the splits"), need(evidence.across, "it by name")
    bad = [f"{len(own)} {kind}: {names(own)}" for kind, own in across.items() if own]
    if bad:
        return found(f"in more than one split: {'; '.join(bad)}")
    return passed(f"nothing straddles the splits: {', '.join(f'{n} {kind}' for kind, n in compared.items())} compared")


@rule("D145", "cuts-moved", "note", phase="data")
def cuts_stand(evidence: SplitEvidence) -> Finding | Passed:
    """The cuts between the splits stand at the declared shares, so that rows added later move none.

    Why it matters: in small data chance would miss the shares by much; the cuts are then fitted to the rows, and rows
    that are added later may move old ones between splits, an evaluation row into training too.

    What to do: nothing, when no rows will be added. Else, before the first run, set `cuts: fixed` and the named seed
    in `data.split`, or give the evaluation rows as files.

    Source: see `testigo.corpus.splitting`: a split in which added rows move none can rebalance nothing.
    """
    moved = need(evidence.moved, "whether the cuts stand")
    better = "" if evidence.better_seed is None else f"; of the seeds tried {evidence.better_seed} fits fixed cuts best"
    return found(f"the cuts are fitted to these rows: {moved}{better}") if moved else passed("the cuts were not moved")
