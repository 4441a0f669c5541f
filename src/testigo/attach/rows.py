"""Rows as the collator hands them to the model: which tokens are real, which are in the loss, which are padding."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

IGNORED = -100


@dataclass(frozen=True)
class SeenRow:
    """One row, collated alone."""

    id: str
    """Split and index in the data set: "train 17"."""
    index: int
    """Index in the data set."""
    ids: tuple[int, ...]
    """Token ids at real places, that is without padding; empty where the batch has no `input_ids`."""
    labels: tuple[int, ...] | None
    """Labels at the same places; None where labels are not given token by token."""
    padding_in_loss: bool
    """Whether a place that is padding has a label."""
    attention_wrong: bool
    """Whether the attention mask hides a token of the row, or shows padding."""
    size: int
    """Tokens, or elements of the row's tensors where there are no tokens: what memory grows with."""
    class_number: int | None = None
    """The row's class, where it has one label."""
    picture: tuple[float, float, float] | None = None
    """Lowest and highest value and standard deviation of its pixels."""

    def n_supervised(self, shift: int) -> int:
        """Labels that the loss counts; a loss that shifts labels never sees the first."""
        return sum(label != IGNORED for label in (self.labels or ())[shift:])


@dataclass(frozen=True)
class Split:
    """The rows of one data set, and the collator that the Trainer's own loader uses."""

    name: str
    n_rows: int | None
    """None for a stream."""
    batch_size: int
    fetch: Callable[[int], Any]
    collate: Callable[[list[Any]], Mapping[str, Any]]
    rows: tuple[SeenRow, ...]
    """The rows that were looked at."""

    def together(self, rows: Sequence[SeenRow]) -> dict[str, Any]:
        """The batch that the collator makes of these rows."""
        return dict(self.collate([self.fetch(row.index) for row in rows]))


def see(name: str, index: int, item: Any, batch: Mapping[str, Any]) -> SeenRow:
    """Read a row off the batch that holds nothing else."""
    ids = _row(batch, "input_ids", 0)
    labels = _row(batch, "labels", 0)
    size = sum(v[0].numel() for v in batch.values() if isinstance(v, torch.Tensor) and v.dim() > 0 and len(v))
    number, picture = _class_number(batch), _picture(batch)
    if ids is None:
        return SeenRow(f"{name} {index}", index, (), None, False, False, size, number, picture)
    mask = _row(batch, "attention_mask", 0)
    places = real_places(ids, _own_ids(item), mask)
    real = tuple(ids[t] for t in places)
    is_wrong = mask is not None and _masked_wrongly(mask, places)
    if labels is None or len(labels) != len(ids):
        return SeenRow(f"{name} {index}", index, real, None, False, is_wrong, len(ids), number, picture)
    return SeenRow(
        f"{name} {index}",
        index,
        real,
        tuple(labels[t] for t in places),
        _labels_elsewhere(labels, places),
        is_wrong,
        len(ids),
    )


def _class_number(batch: Mapping[str, Any]) -> int | None:
    label = batch.get("labels", batch.get("label"))
    if not isinstance(label, torch.Tensor) or label.numel() != 1 or label.dim() > 1 or label.is_floating_point():
        return None
    return int(label)


def _picture(batch: Mapping[str, Any]) -> tuple[float, float, float] | None:
    pixels = batch.get("pixel_values")
    if not isinstance(pixels, torch.Tensor) or pixels.numel() < 2:
        return None
    pixels = pixels.float()
    return float(pixels.min()), float(pixels.max()), float(pixels.std())


def places_in_batch(batch: Mapping[str, Any], rows: Sequence[SeenRow]) -> list[list[int]] | None:
    """Where the tokens of each row lie in a batch of several; None where rows are not one a line, or not the same."""
    found = []
    for number, row in enumerate(rows):
        ids = _row(batch, "input_ids", number)
        if ids is None or not row.ids:
            return None
        places = real_places(ids, row.ids, None)
        if tuple(ids[t] for t in places) != row.ids:
            return None  # flattened, or drawn anew by the collator at each call
        found.append(places)
    return found


def padding_in_loss(batch: Mapping[str, Any], rows: Sequence[SeenRow], places: list[list[int]]) -> list[str]:
    """Ids of rows with a label at a place that is not theirs."""
    bad = []
    for number, (row, own) in enumerate(zip(rows, places, strict=True)):
        labels = _row(batch, "labels", number)
        if labels is not None and row.labels is not None and _labels_elsewhere(labels, own):
            bad.append(row.id)
    return bad


def attention_wrong(batch: Mapping[str, Any], rows: Sequence[SeenRow], places: list[list[int]]) -> list[str]:
    """Ids of rows whose attention mask in a batch of several is not theirs."""
    masks = [_row(batch, "attention_mask", number) for number in range(len(rows))]
    return [row.id for row, mask, own in zip(rows, masks, places, strict=True) if mask and _masked_wrongly(mask, own)]


def real_places(ids: Sequence[int], own: Sequence[int] | None, mask: Sequence[int] | None) -> list[int]:
    """The places of a row's own tokens: where they stand in the line, else where the attention mask says.

    The tokens themselves are looked for first, since a mask that was made from the padding's id can be wrong.
    """
    if own:
        n = len(own)
        if list(ids[:n]) == list(own):
            return list(range(n))
        if list(ids[-n:]) == list(own):
            return list(range(len(ids) - n, len(ids)))
    if mask is not None and len(mask) == len(ids):
        return [t for t, seen in enumerate(mask) if seen]
    return list(range(len(ids)))


def _labels_elsewhere(labels: Sequence[int], places: Sequence[int]) -> bool:
    own = set(places)
    return any(label != IGNORED and t not in own for t, label in enumerate(labels))


def _masked_wrongly(mask: Sequence[int], places: Sequence[int]) -> bool:
    return [t for t, seen in enumerate(mask) if seen] != list(places)


def _own_ids(item: Any) -> list[int] | None:
    """The tokens of a row before it was collated, without padding that it had even then."""
    if not isinstance(item, Mapping) or "input_ids" not in item:
        return None
    ids = numbers(item["input_ids"])
    mask = numbers(item["attention_mask"]) if "attention_mask" in item else None
    if ids is None or mask is None or len(mask) != len(ids):
        return ids
    return [token for token, seen in zip(ids, mask, strict=True) if seen]


def _row(batch: Mapping[str, Any], key: str, number: int) -> list[int] | None:
    value = batch.get(key)
    if not isinstance(value, torch.Tensor) or value.dim() != 2 or value.is_floating_point() or number >= len(value):
        return None
    return [int(token) for token in value[number].tolist()]


def numbers(value: Any) -> list[int] | None:
    """A flat list of whole numbers, however a data set keeps it; None for anything else."""
    listed = value.tolist() if hasattr(value, "tolist") else value
    if not isinstance(listed, list | tuple) or not all(isinstance(number, int) for number in listed):
        return None
    return list(listed)
