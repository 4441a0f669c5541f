"""What a Trainer's rows hold token by token: what counts, what is attended to, what was never trained."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from testigo.attach.bench import Bench
from testigo.attach.rows import IGNORED, SeenRow, Split, attention_wrong, places_in_batch
from testigo.model.tying import input_embedding
from testigo.model.untrained import untrained


def wrongly_attended(splits: Sequence[Split]) -> tuple[str, ...]:
    """Rows whose attention mask is not theirs, alone or beside the longest row."""
    bad = {row.id for split in splits for row in split.rows if row.attention_wrong}
    for split in splits:
        ordered = sorted((row for row in split.rows if row.ids), key=lambda row: (row.size, row.index))
        rows = [*ordered[:1], *ordered[-1:]] if len(ordered) > 1 else []
        batch = split.together(rows) if rows else {}
        places = places_in_batch(batch, rows)
        if places is not None:
            bad.update(attention_wrong(batch, rows, places))
    return tuple(row.id for split in splits for row in split.rows if row.id in bad)


def ends_miscounted(rows: Sequence[SeenRow], turn_end: int | None) -> tuple[tuple[str, str], ...] | None:
    """Rows that learn the turn's end more often than they have turns in the loss.

    A row whose first token counts learns whole texts, and their marks with them.
    """
    if turn_end is None:
        return None
    wrong = []
    for row in rows:
        labels = row.labels or ()
        if not labels or labels[0] != IGNORED:
            continue
        turns = sum(label != IGNORED and before == IGNORED for before, label in pairwise(labels))
        ends = sum(label == turn_end for label in labels)
        if ends > turns:
            wrong.append((row.id, f"{ends} ends in {turns} turns"))
    return tuple(wrong)


def untrained_tokens(bench: Bench, rows: Sequence[SeenRow]) -> tuple[tuple[str, str], ...] | None:
    """(row, token) where a token's row of the embedding was never trained and is frozen."""
    weight = getattr(input_embedding(bench.trainer.model), "weight", None)
    if weight is None:
        return None
    if weight.dim() != 2 or not weight.is_floating_point():
        return None
    if weight.requires_grad:
        return ()
    used = {token for row in rows for token in row.ids}
    tokenizer = bench.trainer.processing_class
    known = len(tokenizer) if hasattr(tokenizer, "__len__") else len(weight)
    never = {token: "beyond the tokenizer's vocabulary" for token in used if known <= token < len(weight)}
    never |= untrained(weight, used)
    first = ((row.id, next((token for token in row.ids if token in never), None)) for row in rows)
    return tuple(
        (row, f"{text_of(tokenizer, token) or ''!r} (id {token}, {never[token]})")
        for row, token in first
        if token is not None
    )


def maximum_length(bench: Bench) -> int | None:
    """TRL's limit for rows that are not packed."""
    if getattr(bench.args, "packing", False) or getattr(bench.trainer, "_skip_prepare_dataset", True):
        return None
    return getattr(bench.args, "max_length", None)


def text_of(tokenizer: Any, token: int | None) -> str | None:
    """A token as text; None where there is nothing that decodes."""
    return None if token is None or not hasattr(tokenizer, "decode") else str(tokenizer.decode([token]))
