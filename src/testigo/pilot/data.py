"""Data and encoding: what the rows say, and what the exact tensors hold. The model is not run."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from testigo.corpus import Row
from testigo.corpus.duplicates import normalised
from testigo.encoding import AnyRow, EncodedRow, Encoder, Lengths, pad
from testigo.gates.data import DataEvidence
from testigo.model.untrained import untrained
from testigo.pilot import layout
from testigo.pilot.seen import Marks, Seen, see
from testigo.tasks import Task

if TYPE_CHECKING:
    import torch


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
    embedding: torch.Tensor | None = None
    """(vocabulary, width): the input embedding, where a model is in memory."""
    embedding_is_trained: bool = False


def collect(tensors: Tensors, *, longest_run: tuple[str, ...] | None = None) -> DataEvidence:
    """Everything is read off the tensors that training would use, row by row; the text is only compared with.

    `longest_run` names the rows that a pilot really ran; None where nothing ran.
    """
    encoded, raw, encoder = tensors.rows, tensors.raw, tensors.encoder
    every = [row for rows in encoded.values() for row in rows]
    frame = encoder.frame
    unknown = frame.unknown_id
    faults, n_supervised = _faults(tensors)

    def rows_with(fault: str) -> tuple[str, ...]:
        return tuple(row_id for row_id, _ in faults[fault])

    return DataEvidence(
        n_rows={split: len(rows) for split, rows in encoded.items()},
        vocabulary_size=tensors.vocabulary_size,
        ids_out_of_range=_ids(row for row in every if max(row.ids) >= tensors.vocabulary_size or min(row.ids) < 0),
        unsupervised=rows_with("unsupervised"),
        supervised_share=n_supervised / max(sum(row.n_tokens for row in encoded["train"]), 1),
        turn_end=frame.text_of([frame.turn_end_id]),
        turn_end_id=frame.turn_end_id,
        turn_end_unlearned=rows_with("end not learned"),
        turn_ends_miscounted=tuple(faults["ends miscounted"]),
        stop_ids=frame.stop_ids,
        prompt_mismatch=rows_with("prompt differs"),
        bos_counts={str(n): count for n, count in Counter(frame.leading_bos(row.ids) for row in every).items()},
        bos_expected=frame.bos_expected,
        prompt_in_loss=rows_with("prompt counts"),
        target_lost=rows_with("target lost"),
        seam_merged=rows_with("seam merged"),
        lost_words=tuple(faults["words lost"]),
        padding_in_loss=_ids(_padding_in_loss(tensors, every)),
        attention_wrong=layout.wrongly_attended(every, tensors.pad_id),
        segments_mixed=layout.mixed_segments(every),
        too_long=_all(tensors, "too_long"),
        target_gone=rows_with("cut target"),
        truncated_target=rows_with("cut inside"),
        end_cut=rows_with("cut end"),
        truncated_input=_all(tensors, "truncated_input"),
        dropped=_all(tensors, "dropped"),
        longer=encoder.longer,
        maximum_length=encoder.maximum_length,
        straddling_groups=straddling(raw),
        exact_copies=copies(encoder.task, raw),
        conflicts=conflicts(encoder.task, raw),
        duplicate_ids=tuple(row_id for row_id, n in Counter(row.id for row in every).items() if n > 1),
        unknown_tokens=_ids(row for row in every if unknown is not None and unknown in row.ids),
        marks_in_input=tuple(faults["mark in input"]),
        marks_in_target=tuple(faults["mark in target"]),
        changed_text=tuple(faults["text changed"]),
        untrained_tokens=_untrained(tensors, every),
        reads_clock=frame.template.reads_clock,
        longest={split: longest(rows) for split, rows in encoded.items() if rows},
        longest_run=longest_run,
    )


def _faults(tensors: Tensors) -> tuple[dict[str, list[tuple[str, str]]], int]:
    """(row id, what was seen) by fault, and the number of training tokens in the loss."""
    faults: dict[str, list[tuple[str, str]]] = defaultdict(list)
    marks, n_supervised = Marks(tensors.encoder), 0
    for split, rows in tensors.rows.items():
        for row, raw in zip(rows, tensors.raw[split], strict=True):
            seen = see(tensors.encoder, row, raw, tensors.layout, tensors.pad_id)
            n_supervised += len(seen.learned) if split == "train" else 0
            for fault, what in _of_row(seen, marks):
                faults[fault].append((row.id, what))
    return faults, n_supervised


def _of_row(seen: Seen, marks: Marks) -> Iterator[tuple[str, str]]:
    """The faults of one row, and what was seen. A cut is told as such, and not again by what it brings about."""
    asked, learned = marks.brought(seen)
    if seen.cut:
        yield f"cut {seen.cut}", ""
    elif not seen.learned:
        yield "unsupervised", ""
    elif seen.misses_end:
        yield "end not learned", ""
    elif not learned and not seen.says_target:
        yield "target lost", ""
    if asked:
        yield "mark in input", asked
    if learned:
        yield "mark in target", learned
    n_ends, n_turns = seen.ends
    if n_ends > n_turns and not learned:
        yield "ends miscounted", f"{n_ends} ends in {n_turns} turns"
    if seen.counts_prompt:
        yield "prompt counts", ""
    if not seen.asks_the_same:
        yield "prompt differs", ""
    if seen.proved.is_merged:
        yield "seam merged", ""
    if lost := seen.lost_words:
        yield "words lost", lost
    if changed := seen.changed_text:
        yield "text changed", changed


def _ids(rows: Iterable[EncodedRow]) -> tuple[str, ...]:
    return tuple(row.id for row in rows)


def _padding_in_loss(tensors: Tensors, rows: Sequence[EncodedRow]) -> list[EncodedRow]:
    """Rows one of whose supervised places, or the place that it predicts, is padding; from a padded batch."""
    ordered = sorted(rows, key=lambda row: (row.n_tokens, row.id))
    chosen = [*ordered[:2], *ordered[-2:]]
    batch = pad(chosen, pad_id=tensors.pad_id)
    segment = batch.segment.flatten()
    bad = ((segment[batch.places] == -1) | (segment[(batch.places + 1) % len(segment)] == -1)).tolist()
    owners = {owner for owner, is_bad in zip(batch.owner.tolist(), bad, strict=True) if is_bad}
    return [chosen[owner] for owner in sorted(owners)]


def straddling(raw: Mapping[str, Sequence[Row]]) -> tuple[str, ...]:
    """Groups with rows in both splits."""
    groups = {split: {row.group for row in rows} for split, rows in raw.items()}
    return tuple(sorted(groups["train"] & groups["validation"]))


def copies(task: Task, raw: Mapping[str, Sequence[Row]]) -> tuple[tuple[str, str], ...]:
    """Pairs (training row, validation row) with the same input and target after normalisation."""
    seen = {_texts(task, row): row.id for row in raw["train"]}
    return tuple((seen[key], row.id) for row in raw["validation"] if (key := _texts(task, row)) in seen)


def conflicts(task: Task, raw: Mapping[str, Sequence[Row]]) -> tuple[tuple[str, str], ...]:
    """Pairs of rows with the same input and different targets, after normalisation."""
    first: dict[str, tuple[str, str]] = {}
    pairs = []
    for row in (row for rows in raw.values() for row in rows):
        asked, target = _texts(task, row)
        known, other = first.setdefault(asked, (target, row.id))
        if known != target:
            pairs.append((other, row.id))
    return tuple(pairs)


def _texts(task: Task, row: Row) -> tuple[str, str]:
    asked = "\n".join(_text(message) for message in task.messages(row.fields))
    return normalised(asked), normalised(task.target(row.fields))


def _text(message: Mapping[str, Any]) -> str:
    """A message's text; one that is no text, or calls a tool, whole."""
    content = message.get("content")
    return content if isinstance(content, str) and len(message) == 2 else json.dumps(message, default=str)


def _untrained(tensors: Tensors, rows: Sequence[EncodedRow]) -> tuple[tuple[str, str], ...] | None:
    """(row id, token) for rows with a token that the embedding never learned and never will."""
    if tensors.embedding is None:
        return None
    used = {token for row in rows for token in row.ids}
    never = {} if tensors.embedding_is_trained else untrained(tensors.embedding, used)
    text = tensors.encoder.frame.text_of
    return tuple(
        (row.id, f"{text([token])!r} (id {token}, {never[token]})")
        for row in rows
        if (token := next((token for token in row.ids if token in never), None)) is not None
    )


def longest(rows: Sequence[AnyRow]) -> tuple[str, int]:
    """The longest row and its tokens."""
    row = min(rows, key=lambda row: (-row.n_tokens, row.id))  # of equal ones the first, as the pilot's worst case
    return row.id, row.n_tokens


def _all(tensors: Tensors, name: str) -> tuple[str, ...]:
    return tuple(row_id for lengths in tensors.lengths.values() for row_id in getattr(lengths, name))
