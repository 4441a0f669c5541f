"""Evidence about duplicates, read off the corpus's manifest, and the rules over them (codes D13x).

The search itself is the corpus's; what was settled there is told here, and what is left is judged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from testigo.gates.measured import need, pairs
from testigo.rules import Finding, Passed, found, passed, rule

Ids = tuple[tuple[str, str], ...]
_WORDS = {
    "exact": "exact",
    "near": "near",
    "contained": "with words added",
    "overlap": "overlapping",
    "passage": "with a passage in common",
    "conflicts": "conflicts",
}


def in_words(kind: str) -> str:
    """What pairs of a kind are called wherever a person reads of them; other words stay as they are."""
    return _WORDS.get(kind, kind)


@dataclass(frozen=True, kw_only=True)
class DuplicateEvidence:
    """What the manifest says of duplicates across files and splits. `None` means that it does not say."""

    left_training: Ids | None = None
    """Pairs (training row that was left out, evaluation row of a given file that it repeats)."""
    left_kinds: dict[str, int] | None = None
    """How many of them of each kind: {"exact": 12, "near": 3}."""
    passages: Ids | None = None
    """Pairs (training row, evaluation row) that have a passage or an answer in common and stay where they are."""
    chosen_and_tested: Ids | None = None
    """Pairs (validation row, test row) that say the same, or nearly."""
    unclean: dict[str, int] | None = None
    """Evaluation rows of each split that have something in training."""


def duplicates_from(manifest: Mapping[str, Any]) -> DuplicateEvidence:
    """The evidence that a corpus's manifest holds."""
    told = manifest.get("duplicates", {})
    if "across" not in told:
        return DuplicateEvidence()
    left = told.get("left_training", [])
    across = told["across"]
    passages = [pair for pair in across if pair[4] == "passage" or pair[5] == "answer"]
    return DuplicateEvidence(
        left_training=tuple((str(row), str(other)) for row, other, _ in left),
        left_kinds=dict(sorted(Counter(str(kind) for _, _, kind in left).items())),
        passages=_between(passages, "train", "validation") + _between(passages, "train", "test"),
        chosen_and_tested=_between([pair for pair in across if pair not in passages], "validation", "test"),
        unclean={name: len(rows) for name, rows in told.get("unclean", {}).items()},
    )


def near_across(manifest: Mapping[str, Any]) -> Ids | None:
    """Pairs (training row, evaluation row) that are nearly the same and stand in two splits: what D104 judges."""
    told = manifest.get("duplicates", {})
    if "across" not in told:
        return None
    alike = [pair for pair in told["across"] if pair[4] in ("near", "contained", "overlap") and pair[5] != "answer"]
    return _between(alike, "train", "validation") + _between(alike, "train", "test")


def _between(across: Iterable[list[Any]], one: str, other: str) -> Ids:
    """The pairs of a row of the one split and a row of the other, in this order."""
    ids = []
    for a, a_split, b, b_split, *_ in across:
        if {a_split, b_split} == {one, other}:
            ids.append((str(a), str(b)) if a_split == one else (str(b), str(a)))
    return tuple(ids)


@rule("D131", "evaluation-rows-in-training-file", "note", phase="data")
def left_training_is_told(evidence: DuplicateEvidence) -> Finding | Passed:
    """Training rows that repeat rows of a given validation or test file were left out.

    Why it matters: somebody who trained on the files as they are has trained on the examination. The results here are
    clean of it; results that were made elsewhere with these files are not.

    What to do: nothing, if the pairs are duplicates; look at them with `testigo check`. If they are not, set
    `data.duplicates.near_policy`, `overlap_policy` or `contained` to `report`, and these rows stay in training.

    Source: Lee et al. 2022, "Deduplicating training data makes language models better" (train-test overlap).
    """
    left = need(evidence.left_training, "what left training")
    if left:
        kinds = evidence.left_kinds or {}
        counts = ", ".join(f"{n} {in_words(kind)}" for kind, n in kinds.items())
        rows = tuple(dict.fromkeys(evaluation for _, evaluation in left))
        return found(
            f"{len(left)} training rows repeated {len(rows)} evaluation rows and were left out ({counts}): "
            f"{pairs(left)}",
            rows=rows,
        )
    return passed("no training row repeated a row of a given evaluation file")


@rule("D132", "passage-in-training", "note", phase="data")
def passages_are_told(evidence: DuplicateEvidence) -> Finding | Passed:
    """Evaluation rows have no passage of 13 words, and no long answer, in common with training.

    Why it matters: a passage that was learned by heart helps where it is asked for again, though the rows are no
    copies. The comparison therefore gives its results on the other rows too.

    What to do: look at the pairs with `testigo check`. Where they are quotations of one document, name its field in
    `data.group`; else compare the results on all rows with those on the clean ones.

    Source: Brown et al. 2020, "Language models are few-shot learners", appendix C: 13-grams in common, and results
    on the clean subset.
    """
    found_pairs = need(evidence.passages, "passages in common")
    if found_pairs:
        rows = tuple(dict.fromkeys(evaluation for _, evaluation in found_pairs))
        return found(
            f"{len(rows)} evaluation rows have a passage or a long answer in common with training: "
            f"{pairs(found_pairs)}",
            rows=rows,
        )
    return passed("no passage of 13 words and no long answer is common to training and evaluation")


@rule("D133", "validation-repeats-test", "warn", phase="data")
def choice_and_test_differ(evidence: DuplicateEvidence) -> Finding | Passed:
    """Validation rows are no duplicates of test rows.

    Why it matters: checkpoints and variants are chosen by validation; a test row that stands there was looked at before
    the test was opened, and the sealed result looks better than it is.

    What to do: take the named rows out of the validation file.

    Source: Dwork et al. 2015, "The reusable holdout: preserving validity in adaptive data analysis".
    """
    repeated = need(evidence.chosen_and_tested, "duplicates between validation and test")
    if repeated:
        rows = tuple(dict.fromkeys(validation for validation, _ in repeated))
        return found(f"{len(repeated)} validation rows repeat test rows: {pairs(repeated)}", rows=rows)
    return passed("no validation row repeats a test row")
