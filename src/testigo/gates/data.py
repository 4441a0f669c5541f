"""Evidence about rows and tensors before the model is run, and the rules over the rows (codes D)."""

from __future__ import annotations

from dataclasses import dataclass


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
    bos_id: int | None = None
    """The id of the token that begins a text; None when the tokenizer has none."""
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
