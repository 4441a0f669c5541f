"""Data: what the collator's tensors hold, row by row. The model is not run."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from testigo.attach import tokens
from testigo.attach.bench import Bench
from testigo.attach.copies import copies
from testigo.attach.labels import conflicts, first_label, labels_shifted
from testigo.attach.rows import IGNORED, SeenRow, Split, numbers, padding_in_loss, places_in_batch
from testigo.gates.data import DataEvidence
from testigo.model.tying import input_embedding

_MASK_COLUMNS = ("assistant_masks", "assistant_mask")


def collect(bench: Bench) -> DataEvidence:
    """Everything is read off batches that the Trainer's own collator made."""
    splits = (bench.train, *bench.evaluation)
    rows = [row for split in splits for row in split.rows]
    by_token = [row for row in rows if row.labels is not None]
    ends = end_ids(bench)
    size = _vocabulary_size(bench)
    tokenizer = bench.trainer.processing_class
    # Labels of other kinds (classes of tokens, masked tokens) have no answer that could end.
    answers = by_token if labels_shifted(bench.train.rows) is not None else []
    turn_end = _turn_end(bench, answers, ends)
    n_tokens = sum(len(row.ids) for row in bench.train.rows)
    n_supervised = sum(row.n_supervised(bench.shift) for row in bench.train.rows)
    cut = _cut_by_length(bench, ends)
    exact, near = copies(bench)
    return DataEvidence(
        n_rows={split.name: split.n_rows for split in splits if split.n_rows is not None} or None,
        vocabulary_size=size,
        ids_out_of_range=None if size is None else _ids(r for r in rows if r.ids and not 0 <= max(r.ids) < size),
        unsupervised=_ids(row for row in by_token if not row.n_supervised(bench.shift)) if by_token else None,
        supervised_share=n_supervised / n_tokens if answers and n_tokens else None,
        turn_end=tokens.text_of(tokenizer, turn_end if turn_end is not None else _left_out(answers, ends)),
        turn_end_id=turn_end,
        turn_end_unlearned=_ids(r for r in answers if _ends_left_out(r, ends)) if answers and ends else None,
        stop_ids=tuple(sorted(_stop_ids(bench))) or None,
        **_begin_of_text(getattr(tokenizer, "bos_token_id", None), bench.train.rows),
        padding_in_loss=_padding(splits) if by_token else None,
        attention_wrong=tokens.wrongly_attended(splits),
        truncated_target=cut,
        turn_ends_miscounted=tokens.ends_miscounted(answers, turn_end),
        untrained_tokens=tokens.untrained_tokens(bench, rows),
        dropped=_dropped(bench),
        longest={split.name: _longest(split) for split in splits if split.rows} if bench.run else None,
        longest_run=tuple(sorted(bench.run)),
        exact_copies=exact,
        near_copies=near,
        conflicts=conflicts(bench.train.rows) if answers else None,
        unknown_tokens=_unknown(tokenizer, rows),
    )


def end_ids(bench: Bench) -> frozenset[int]:
    """Tokens that end an answer: those at which generation stops, and the one that the chat template writes."""
    return _stop_ids(bench) | _template_end(bench.trainer.processing_class)


def assistant_mask_empty(bench: Bench) -> tuple[tuple[str, ...] | None, bool | None]:
    """Rows whose assistant mask marks nothing, and whether the chat template has marks at all.

    Where no mask is kept beside the rows, a row without labels counts when the template has no marks.
    """
    template = getattr(bench.trainer.processing_class, "chat_template", None)
    text = " ".join(template.values()) if isinstance(template, Mapping) else template or ""
    marks = bool(re.search(r"\{%-?\s*generation\b", text)) if text else None
    dataset = bench.trainer.train_dataset
    columns = getattr(dataset, "column_names", None) or ()
    column = next((name for name in _MASK_COLUMNS if name in columns), None)
    if column is not None and bench.train.n_rows is not None:
        masks = {row.id: numbers(dataset[row.index][column]) for row in bench.train.rows}
        return tuple(row for row, mask in masks.items() if mask is not None and not any(mask)), marks
    if marks is False and _looks_like_chat(bench):
        return _ids(r for r in bench.train.rows if r.labels is not None and not r.n_supervised(bench.shift)), marks
    return None, marks


def class_names(bench: Bench) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
    """Class names in the order of the data set's numbers and of the model's outputs, where they have names."""
    features = getattr(bench.trainer.train_dataset, "features", None) or {}
    column = next((name for name in ("label", "labels", "label_ids") if name in features), None)
    own = getattr(features[column], "names", None) if column is not None else None
    by_number = getattr(getattr(bench.trainer.model, "config", None), "id2label", None) or {}
    model = tuple(str(by_number[number]) for number in sorted(by_number))
    if all(re.fullmatch(r"LABEL_\d+", name) for name in model):
        model = ()
    return (tuple(own) if own else None), (model or None)


def _looks_like_chat(bench: Bench) -> bool:
    """Whether rows hold a token that the chat template writes between turns."""
    marks = _template_end(bench.trainer.processing_class)
    return any(marks & set(row.ids) for row in bench.train.rows[:16])


def _ids(rows: Iterable[SeenRow]) -> tuple[str, ...]:
    return tuple(row.id for row in rows)


def _vocabulary_size(bench: Bench) -> int | None:
    weight = getattr(input_embedding(bench.trainer.model), "weight", None)
    return None if weight is None else int(weight.shape[0])


def _stop_ids(bench: Bench) -> frozenset[int]:
    """The Trainer writes the tokenizer's end token into the generation settings, so both stop generation."""
    settings = getattr(getattr(bench.trainer.model, "generation_config", None), "eos_token_id", None)
    own = settings if isinstance(settings, list | tuple) else [settings]
    every = [*own, getattr(bench.trainer.processing_class, "eos_token_id", None)]
    return frozenset(int(token) for token in every if token is not None)


def _template_end(tokenizer: Any) -> frozenset[int]:
    """The special token that the chat template writes after the assistant's words."""
    if not getattr(tokenizer, "chat_template", None):
        return frozenset()
    from testigo.encoding.frame import Frame
    from testigo.errors import EncodingError

    try:
        return frozenset({Frame(tokenizer).turn_end_id})
    except EncodingError:
        return frozenset()
    except Exception:  # a template may refuse the probe conversation in its own words
        return frozenset()


def _turn_end(bench: Bench, rows: Sequence[SeenRow], ends: frozenset[int]) -> int | None:
    """The special token that most rows' labels end with."""
    special = set(getattr(bench.trainer.processing_class, "all_special_ids", ())) | ends
    last = Counter(_last_label(row) for row in rows)
    last.pop(None, None)
    if not last:
        return None
    token, count = last.most_common(1)[0]
    return token if token in special and count > len(rows) / 2 else None


def _left_out(rows: Sequence[SeenRow], ends: frozenset[int]) -> int | None:
    """The token that ends most of the answers that do not learn their end."""
    last = Counter(row.ids[t] for row in rows for t in _ends_left_out(row, ends))
    return last.most_common(1)[0][0] if last else None


def _last_label(row: SeenRow) -> int | None:
    return next((label for label in reversed(row.labels or ()) if label != IGNORED), None)


def _ends_left_out(row: SeenRow, ends: frozenset[int]) -> list[int]:
    """Places of tokens that end an answer, follow one in the loss, and are not in the loss themselves."""
    labels = row.labels or ()
    places = range(1, len(row.ids))
    return [t for t in places if row.ids[t] in ends and labels[t] == IGNORED and labels[t - 1] != IGNORED]


def _begin_of_text(bos: int | None, rows: Sequence[SeenRow]) -> dict[str, Any]:
    """Texts that were joined and cut into blocks begin anywhere, so a mixture of none and one says nothing."""
    counts: Counter[int] = Counter()
    for row in rows:
        if row.ids and bos is not None:
            counts[next((n for n, token in enumerate(row.ids) if token != bos), len(row.ids))] += 1
    if not counts or (max(counts) <= 1 and len(counts) > 1):
        return {}
    return {"bos_counts": {str(n): rows for n, rows in counts.items()}, "bos_expected": min(1, max(counts))}


def _padding(splits: Sequence[Split]) -> tuple[str, ...]:
    """Rows with labels on padding, alone or beside the longest row."""
    bad = {row.id for split in splits for row in split.rows if row.padding_in_loss}
    for split in splits:
        ordered = sorted((row for row in split.rows if row.labels is not None), key=lambda row: (row.size, row.index))
        for start in range(0, max(len(ordered) - 1, 0), 8):
            rows = [*ordered[start : start + 8], ordered[-1]][: len(ordered)]
            batch = split.together(rows)
            places = places_in_batch(batch, rows)
            if places is not None:
                bad.update(padding_in_loss(batch, rows, places))
    order = [row.id for split in splits for row in split.rows]
    return tuple(row for row in order if row in bad)


def _longest(split: Split) -> tuple[str, int]:
    row = max(split.rows, key=lambda row: (row.size, -row.index))
    return row.id, row.size


def answers_ended(bench: Bench) -> tuple[int, int] | None:
    """Rows that answer, and those of them that end; None where rows are blocks of running text."""
    ends = end_ids(bench)
    rows = [row for row in bench.train.rows if row.labels is not None and row.n_supervised(bench.shift)]
    if not ends or labels_shifted(bench.train.rows) is None or not rows:
        return None
    sizes = Counter(len(row.ids) for row in rows)
    if sizes.most_common(1)[0][1] > len(rows) / 2:
        return None
    return len(rows), sum(bool(ends & set(row.ids[first_label(row) :])) for row in rows)


def _unknown(tokenizer: Any, rows: Sequence[SeenRow]) -> tuple[str, ...] | None:
    unknown = getattr(tokenizer, "unk_token_id", None)
    others = {getattr(tokenizer, name, None) for name in ("eos_token_id", "bos_token_id", "pad_token_id")}
    if tokenizer is None or unknown in others:  # some tokenizers have one token for all of these
        return None
    return _ids(row for row in rows if unknown is not None and unknown in row.ids)


#: Of rows that are cut by length, at least so many are of exactly the greatest length.
_ENOUGH_CUT = 2


def _cut_by_length(bench: Bench, ends: frozenset[int]) -> tuple[str, ...] | None:
    """Rows of exactly the maximum length that lack the end which shorter rows have.

    TRL says its maximum length. Where rows were tokenised before, it is the greatest length, if several rows have
    exactly that; blocks of running text are all of one length and say nothing.
    """
    limit = tokens.maximum_length(bench)
    if limit is None:
        sizes = Counter(len(row.ids) for row in bench.train.rows)
        limit = max(sizes, default=0)
        if not limit or not _ENOUGH_CUT <= sizes[limit] < len(bench.train.rows) / 2:
            return None
    at_limit = [row for row in bench.train.rows if len(row.ids) == limit]
    shorter = [row for row in bench.train.rows if 0 < len(row.ids) < limit]
    ended = [row for row in shorter if ends & set(row.ids[-3:])]
    if not shorter or len(ended) < len(shorter) / 2:
        return None if at_limit else ()
    return _ids(row for row in at_limit if not ends & set(row.ids[-3:]))


def _dropped(bench: Bench) -> tuple[str, ...] | None:
    """Rows that TRL left out because nothing of their answer remained within the maximum length.

    It filters the prepared rows, and `datasets` keeps a filter as a list of indices over the table that it was
    applied to: the indices that are missing there are the rows that are missing here.
    """
    if tokens.maximum_length(bench) is None:
        return None
    table = getattr(bench.trainer.train_dataset, "data", None)
    with_indices = getattr(bench.trainer.train_dataset, "_indices", None)
    if table is None:
        return None
    if with_indices is None:
        return ()
    indices = set(with_indices.column(0).to_pylist())
    return tuple(f"train (before preparation) {index}" for index in range(table.num_rows) if index not in indices)
