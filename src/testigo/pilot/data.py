"""Data and encoding: what the rows say, and what the exact tensors hold. The model is not run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from testigo.corpus import Row
from testigo.corpus.duplicates import normalised
from testigo.encoding import EncodedRow, Encoder, Lengths, Pack, lay_out, pad
from testigo.gates.data import DataEvidence


@dataclass(frozen=True)
class Tensors:
    """What the data gate looks at; made with or without a model in memory."""

    encoder: Encoder
    rows: Mapping[str, Sequence[EncodedRow]]
    raw: Mapping[str, Sequence[Row]]
    lengths: Mapping[str, Lengths]
    vocabulary_size: int
    layout: Literal["packed", "padded"]
    pad_id: int


def collect(tensors: Tensors, *, longest_run: tuple[str, ...] | None = None) -> DataEvidence:
    """Everything is read off the tensors that training would use, row by row; the text is only compared with.

    `longest_run` names the rows that a pilot really ran; None where nothing ran.
    """
    encoded, raw, encoder = tensors.rows, tensors.raw, tensors.encoder
    every = [row for rows in encoded.values() for row in rows]
    both = [(row, r) for split in encoded for row, r in zip(encoded[split], raw[split], strict=True)]
    frame = encoder.frame
    unknown = frame.tokenizer.unk_token_id
    learned = {row.id: _learned(lay_out([row], tensors.layout, pad_id=tensors.pad_id)) for row in every}
    n_supervised = sum(len(learned[row.id]) for row in encoded["train"])
    return DataEvidence(
        n_rows={split: len(rows) for split, rows in encoded.items()},
        vocabulary_size=tensors.vocabulary_size,
        ids_out_of_range=_ids(row for row in every if max(row.ids) >= tensors.vocabulary_size or min(row.ids) < 0),
        unsupervised=_ids(row for row in every if not learned[row.id]),
        supervised_share=n_supervised / max(sum(row.n_tokens for row in encoded["train"]), 1),
        turn_end=frame.text_of([frame.turn_end_id]),
        turn_end_id=frame.turn_end_id,
        turn_end_unlearned=_ids(row for row in every if frame.turn_end_id not in learned[row.id]),
        stop_ids=frame.stop_ids,
        prompt_mismatch=_ids(row for row, r in both if not _prompt_is_the_same(encoder, row, r)),
        bos_id=frame.tokenizer.bos_token_id,
        bos_counts={str(n): count for n, count in Counter(frame.leading_bos(row.ids) for row in every).items()},
        bos_expected=frame.bos_expected,
        prompt_in_loss=_ids(row for row in every if tuple(learned[row.id]) != row.supervised_ids),
        target_lost=_ids(row for row, r in both if not _says_target(encoder, learned[row.id], r)),
        seam_merged=_ids(row for row, r in both if _is_merged(encoder, row, r)),
        padding_in_loss=_ids(_padding_in_loss(tensors, every)),
        too_long=_all(tensors, "too_long"),
        truncated_target=(),  # the encoder never cuts an answer: rows that do not fit are refused
        dropped=_all(tensors, "dropped"),
        longer=encoder.longer,
        maximum_length=encoder.maximum_length,
        straddling_groups=_straddling(raw),
        exact_copies=_copies(encoder, raw),
        conflicts=_conflicts(encoder, raw),
        duplicate_ids=tuple(row_id for row_id, n in Counter(row.id for row in every).items() if n > 1),
        unknown_tokens=_ids(row for row in every if unknown is not None and unknown in row.ids),
        longest={split: _longest(rows) for split, rows in encoded.items() if rows},
        longest_run=longest_run,
    )


def _ids(rows: Iterable[EncodedRow]) -> tuple[str, ...]:
    return tuple(row.id for row in rows)


def _learned(laid: Pack) -> list[int]:
    """The ids that the loss of a row alone is computed against, from the tensors themselves."""
    learned: list[int] = laid.targets.tolist()
    return learned


def _says_target(encoder: Encoder, learned: Sequence[int], row: Row) -> bool:
    """Whether what is learned, without the turn's end, decodes to the target."""
    answer = list(learned[: len(learned) - len(encoder.frame.turn_end_ids)])
    target = encoder.task.target(row.fields)
    return encoder.frame.text_of(answer).strip() == target.strip()


def _prompt_is_the_same(encoder: Encoder, encoded: EncodedRow, row: Row) -> bool:
    """The prompt in the tensors, the prompt that evaluation asks with, and the template's own conversation agree."""
    frame, task = encoder.frame, encoder.task
    messages = task.messages(row.fields)
    asked = encoder.prompt_ids(row.fields)
    if encoded.ids[: encoded.n_before_answer] != asked:
        return False
    if encoder.longer == "truncate":
        return True
    return frame.conversation_text(messages, task.target(row.fields)).startswith(frame.prompt_text(messages))


def _is_merged(encoder: Encoder, encoded: EncodedRow, row: Row) -> bool:
    """Whether the whole text, tokenised at once, has another boundary between prompt and answer."""
    frame, task = encoder.frame, encoder.task
    if encoder.longer == "truncate":
        return False
    text = frame.prompt_text(task.messages(row.fields)) + task.target(row.fields)
    at_once = frame.tokenizer(text, add_special_tokens=not frame.has_template)["input_ids"]
    n = encoded.n_before_answer + 1
    return tuple(at_once[:n]) != encoded.ids[:n]


def _padding_in_loss(tensors: Tensors, rows: Sequence[EncodedRow]) -> list[EncodedRow]:
    """Rows one of whose supervised places, or the place that it predicts, is padding; from a padded batch."""
    ordered = sorted(rows, key=lambda row: (row.n_tokens, row.id))
    chosen = [*ordered[:2], *ordered[-2:]]
    batch = pad(chosen, pad_id=tensors.pad_id)
    segment = batch.segment.flatten()
    bad = ((segment[batch.places] == -1) | (segment[(batch.places + 1) % len(segment)] == -1)).tolist()
    owners = {owner for owner, is_bad in zip(batch.owner.tolist(), bad, strict=True) if is_bad}
    return [chosen[owner] for owner in sorted(owners)]


def _straddling(raw: Mapping[str, Sequence[Row]]) -> tuple[str, ...]:
    groups = {split: {row.group for row in rows} for split, rows in raw.items()}
    return tuple(sorted(groups["train"] & groups["validation"]))


def _copies(encoder: Encoder, raw: Mapping[str, Sequence[Row]]) -> tuple[tuple[str, str], ...]:
    """Pairs (training row, validation row) with the same input and target after normalisation."""
    seen = {_texts(encoder, row): row.id for row in raw["train"]}
    return tuple((seen[key], row.id) for row in raw["validation"] if (key := _texts(encoder, row)) in seen)


def _conflicts(encoder: Encoder, raw: Mapping[str, Sequence[Row]]) -> tuple[tuple[str, str], ...]:
    """Pairs of rows with the same input and different targets, after normalisation."""
    first: dict[str, tuple[str, str]] = {}
    pairs = []
    for row in (row for rows in raw.values() for row in rows):
        asked, target = _texts(encoder, row)
        known, other = first.setdefault(asked, (target, row.id))
        if known != target:
            pairs.append((other, row.id))
    return tuple(pairs)


def _texts(encoder: Encoder, row: Row) -> tuple[str, str]:
    asked = "\n".join(message["content"] for message in encoder.task.messages(row.fields))
    return normalised(asked), normalised(encoder.task.target(row.fields))


def _longest(rows: Sequence[EncodedRow]) -> tuple[str, int]:
    row = min(rows, key=lambda row: (-row.n_tokens, row.id))  # of equal ones the first, as the pilot's worst case
    return row.id, row.n_tokens


def _all(tensors: Tensors, name: str) -> tuple[str, ...]:
    return tuple(row_id for lengths in tensors.lengths.values() for row_id in getattr(lengths, name))
