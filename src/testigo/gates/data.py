"""Evidence about rows and tensors before the model is run, and the rules over the rows (codes D)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from testigo.gates.measured import names, need, no_row, pairs
from testigo.rules import Finding, Passed, found, passed, rule


@dataclass(frozen=True, kw_only=True)
class DataEvidence:
    """What was seen in the rows and in the exact tensors made of them. `None` means that it was not measured."""

    n_rows: dict[str, int] | None = None
    """Rows of each split that reach the model: {"train": 400, "validation": 80}."""
    vocabulary_size: int | None = None
    """Rows of the model's input embedding: ids run from 0 to this number minus one."""
    ids_out_of_range: tuple[str, ...] | None = None
    """Ids of rows with a token id below zero or not below the vocabulary size."""
    unsupervised: tuple[str, ...] | None = None
    """Ids of rows without a single token in the loss."""
    supervised_share: float | None = None
    """Tokens in the loss divided by all tokens of the training rows, 0 to 1."""
    turn_end: str | None = None
    """The token that ends the assistant's turn in the rendered template, as text."""
    turn_end_id: int | None = None
    """Its token id."""
    turn_end_unlearned: tuple[str, ...] | None = None
    """Ids of rows whose turn's end is not in the loss."""
    stop_ids: tuple[int, ...] | None = None
    """Token ids at which generation stops."""
    prompt_mismatch: tuple[str, ...] | None = None
    """Ids of rows whose prompt in training is not, token for token, the prompt in evaluation."""
    bos_counts: dict[str, int] | None = None
    """How many rows hold how many begin-of-text tokens in front: {"1": 400}."""
    bos_expected: int | None = None
    """Begin-of-text tokens that each row should have in front: 1, or 0 for models that use none."""
    prompt_in_loss: tuple[str, ...] | None = None
    """Ids of rows with a prompt token in the loss."""
    target_lost: tuple[str, ...] | None = None
    """Ids of rows whose tokens in the loss do not decode to the target."""
    seam_merged: tuple[str, ...] | None = None
    """Ids of rows where tokenising the whole text merges the last character of the prompt with the answer's first."""
    padding_in_loss: tuple[str, ...] | None = None
    """Ids of rows with a padding place (by position, not by id) in the loss."""
    too_long: tuple[str, ...] | None = None
    """Ids of rows with more tokens than the maximum length."""
    truncated_target: tuple[str, ...] | None = None
    """Ids of rows whose expected output was cut."""
    dropped: tuple[str, ...] | None = None
    """Ids of rows that were left out."""
    longer: str | None = None
    """What the campaign declares for rows that are too long: refuse, drop or truncate."""
    maximum_length: int | None = None
    """Most tokens of a row, prompt and target together."""
    longest: dict[str, tuple[str, int]] | None = None
    """The longest row of each split and its tokens: {"train": ("row 7", 466)}."""
    longest_run: tuple[str, ...] | None = None
    """Ids of rows that the pilot really ran, backward for training rows and forward for the others."""
    straddling_groups: tuple[str, ...] | None = None
    """Groups with rows in more than one split."""
    duplicate_ids: tuple[str, ...] | None = None
    """Row ids that occur more than once."""
    exact_copies: tuple[tuple[str, str], ...] | None = None
    """Pairs (training row, evaluation row) that are the same after normalisation."""
    near_copies: tuple[tuple[str, str], ...] | None = None
    """Pairs (training row, evaluation row) that are nearly the same."""
    conflicts: tuple[tuple[str, str], ...] | None = None
    """Pairs of rows with the same input and different targets."""
    unknown_tokens: tuple[str, ...] | None = None
    """Ids of rows with the tokenizer's unknown token."""
    marks_in_input: tuple[tuple[str, str], ...] | None = None
    """(row, token) where the text of a prompt became a special token that frames texts: ("row 7", "<|im_end|>")."""
    marks_in_target: tuple[tuple[str, str], ...] | None = None
    """The same for texts that are learned."""
    lost_words: tuple[tuple[str, str], ...] | None = None
    """(row, "system: 'Be short.'") where the chat template leaves a message's words out of the prompt."""
    changed_text: tuple[tuple[str, str], ...] | None = None
    """(row, "before became after") where the prompt's text does not survive tokenising and decoding."""
    untrained_tokens: tuple[tuple[str, str], ...] | None = None
    """(row, token) where a token's row of the embedding was never trained and is frozen."""
    target_gone: tuple[str, ...] | None = None
    """Ids of rows whose expected output was cut away whole."""
    end_cut: tuple[str, ...] | None = None
    """Ids of rows whose expected output is whole and whose turn's end was cut away."""
    truncated_input: tuple[str, ...] | None = None
    """Ids of rows whose input was shortened."""
    turn_ends_miscounted: tuple[tuple[str, str], ...] | None = None
    """(row, "3 ends in 2 turns") where the turn's end is learned more often than there are assistant's turns."""
    attention_wrong: tuple[str, ...] | None = None
    """Ids of rows whose attention mask hides a token of theirs, or shows padding."""
    segments_mixed: tuple[str, ...] | None = None
    """Ids of rows that see another row of their pack, or not all of themselves."""
    smallest_effect: float | None = None
    """The smallest improvement that the campaign registers, a share of the rows, 0 to 1."""
    alpha: float | None = None
    """The level at which it is tested."""
    reads_clock: bool | None = None
    """Whether the chat template writes the day on which a prompt is rendered."""


@rule("D101", "duplicate-id", "stop", phase="data")
def ids_are_unique(evidence: DataEvidence) -> Finding | Passed:
    """Each row has an id of its own.

    Why it matters: splits, predictions and paired comparisons are joined by id; with an id twice, one row's result is
    counted for another.

    What to do: give each row its own value in the field that `data.id` names, or name another field there.

    Source: a key must be unique for a join to pair each row with itself (Codd 1970, "A relational model of data").
    """
    return no_row(evidence.duplicate_ids, "ids", "share their id with another", "every id occurs once")


@rule("D102", "group-straddles-splits", "stop", phase="data")
def groups_stay_together(evidence: DataEvidence) -> Finding | Passed:
    """Rows of one group (customer, conversation, document) lie in one split.

    Why it matters: the model may learn the group by heart and be examined on it; the result looks better than it is.

    What to do: let `data.group` name the field and `data.split` give shares, so that the split is made by group; for
    splits by file, move all rows of the named groups into one file.

    Source: Kapoor and Narayanan 2023, "Leakage and the reproducibility crisis in machine-learning-based science".
    """
    groups = need(evidence.straddling_groups, "groups across splits")
    if groups:
        return found(f"{len(groups)} groups lie in more than one split: {names(groups)}")
    return passed("no group lies in more than one split")


@rule("D103", "exact-copy-across-splits", "stop", phase="data")
def no_copies_across_splits(evidence: DataEvidence) -> Finding | Passed:
    """No row is in the training rows and in the rows that examine the model.

    Why it matters: a copied row measures memory, not ability.

    What to do: set `data.duplicates.exact: drop`, or take the named rows out of one split; oversample only after
    splitting.

    Source: Lee et al. 2022, "Deduplicating training data makes language models better" (train-test overlap).
    """
    copies = need(evidence.exact_copies, "copies across splits")
    if copies:
        found_in = [evaluation for _, evaluation in copies]
        return found(f"{len(copies)} exact copies across splits: {pairs(copies)}", rows=found_in)
    return passed("no training row is an exact copy of an evaluation row")


@rule("D104", "near-copy-across-splits", "warn", phase="data")
def few_near_copies(evidence: DataEvidence) -> Finding | Passed:
    """Training rows are not evaluation rows with a few words changed.

    Why it matters: near copies are memorised nearly as well as copies and raise the result.

    What to do: set `data.duplicates.near: 0.8`, so that near copies are joined before the split, and leave
    `near_policy`, `contained` and `overlap_policy` at `drop`, so that those of given files leave training; look at the
    pairs with `testigo check`.

    Source: Lee et al. 2022, "Deduplicating training data makes language models better", section 4.2.
    """
    copies = need(evidence.near_copies, "near copies across splits")
    if copies:
        found_in = [evaluation for _, evaluation in copies]
        return found(f"{len(copies)} near copies across splits: {pairs(copies)}", rows=found_in)
    return passed("no training row is a near copy of an evaluation row")


@rule("D105", "same-input-other-target", "warn", phase="data")
def one_target_an_input(evidence: DataEvidence) -> Finding | Passed:
    """Rows with the same input have the same target.

    Why it matters: a model that answers the same input in one way cannot be right for both rows; they set a ceiling
    under 100 %.

    What to do: correct the targets in `data.source`; leave them when several answers are truly right and the metric
    accepts each.

    Source: Northcutt, Athalye and Mueller 2021, "Pervasive label errors in test sets".
    """
    conflicts = need(evidence.conflicts, "same inputs with other targets")
    if conflicts:
        rows = tuple(dict.fromkeys(row for pair in conflicts for row in pair))
        return found(f"{len(conflicts)} pairs have one input and two targets: {pairs(conflicts)}", rows=rows)
    return passed("no input has two targets")


@rule("D106", "empty-split", "stop", phase="data")
def splits_have_rows(evidence: DataEvidence) -> Finding | Passed:
    """Training and validation have rows.

    Why it matters: without training rows nothing is learned, and without validation rows nothing is known about it.

    What to do: add rows to `data.source`, raise the share in `data.split`, or loosen `data.clean` and the maximum
    length that left rows out.

    Source: by definition of the campaign; a mean over no rows has no value.
    """
    n_rows = need(evidence.n_rows, "the number of rows")
    counts = ", ".join(f"{split} {n}" for split, n in n_rows.items())
    empty = [split for split, n in n_rows.items() if n <= 0]
    if empty or not n_rows:
        return found(f"no rows in {names(empty) or 'any split'} ({counts})")
    return passed(f"rows: {counts}")


@rule("D161", "few-validation-rows", "note", phase="data", requires=("D106",))
def validation_can_decide(evidence: DataEvidence) -> Finding | Passed:
    """There are validation rows enough to show the improvement that the campaign asks for.

    Why it matters: an exact paired test counts rows that became right. Where the registered improvement is only a few
    rows, no outcome of that size differs from chance, and the campaign ends as *not decided* whatever the model does.

    What to do: give `data.split.validation` more rows or a larger share; or ask for a larger improvement in
    `hypothesis.improve.by`. `testigo baseline` says what the rows can detect with the base's own outputs.

    Source: McNemar 1947, exact form: k rows that all became right have the two-sided p-value 2 · 0.5^k.
    """
    rows = need(evidence.n_rows, "the number of rows").get("validation", 0)
    effect = need(evidence.smallest_effect, "the registered improvement")
    alpha = need(evidence.alpha, "the level of the test")
    needed = math.floor(math.log2(2 / alpha)) + 1  # the fewest k with 2 * 0.5^k < alpha
    became_right = math.floor(rows * effect + 1e-9)
    told = f"{rows} validation rows: an improvement of {effect:g} is {became_right} of them"
    if became_right < needed:
        return found(f"{told}, and {needed} that become right are the fewest that an exact test can show at {alpha:g}")
    return passed(f"{told}; {needed} would be the fewest that an exact test can show at {alpha:g}")
