"""Rows that have one answer each, a class: what a class head reads, and a batch of it with the surface of a pack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from testigo.tasks import Task


@dataclass(frozen=True)
class LabelledRow:
    """One row before a class head: a text's ids or an image, and the number of its class.

    Attributes
    ----------
    ids
        The whole text as the model reads it, marks included; empty for an image.
    image
        The row's image field; see `testigo.corpus.images`.
    variation
        (seed, epoch) of the augmentation, in training alone.
    """

    id: str
    category: str
    label: int
    ids: tuple[int, ...] = ()
    image: Mapping[str, Any] | None = None
    variation: tuple[int, int] | None = None

    @property
    def n_tokens(self) -> int:
        """The text's length [tokens]; an image counts as one."""
        return max(len(self.ids), 1)

    @property
    def n_prompt(self) -> int:
        """Everything stands before the answer [tokens]."""
        return len(self.ids)

    n_before_answer = n_prompt

    @property
    def n_supervised(self) -> int:
        """Each row has one answer."""
        return 1

    n_answer = n_supervised

    @property
    def supervised_spans(self) -> tuple[tuple[int, int], ...]:
        """No token counts in the loss: the class does."""
        return ()


@dataclass(frozen=True)
class Labelled:
    """A microbatch before a class head. B rows, one supervised place each.

    Attributes
    ----------
    inputs
        What the model takes by name: `input_ids` and `attention_mask` (B, T) long, or `pixel_values` (B, C, H, W).
    targets
        (B,) long: the class of each row.
    owner
        (B,) long: which row of `row_ids` a place belongs to, in order.
    """

    inputs: Mapping[str, torch.Tensor]
    targets: torch.Tensor
    owner: torch.Tensor
    row_ids: tuple[str, ...]

    @property
    def n_tokens(self) -> int:
        """Places computed, padding included [tokens]; an image counts as one."""
        ids = self.inputs.get("input_ids")
        return len(self.row_ids) if ids is None else ids.numel()

    @property
    def n_supervised(self) -> int:
        """What counts in the loss: a place a row."""
        return self.targets.numel()

    def to(self, device: torch.device | str) -> Labelled:
        """The same batch on a device."""
        moved = {name: value.to(device) for name, value in self.inputs.items()}
        return replace(self, inputs=moved, targets=self.targets.to(device), owner=self.owner.to(device))


UNKNOWN = -1
"""The number of a class that the head does not have: a row of it can be judged, as wrong, and never be learned."""


def number_of(task: Task, fields: Mapping[str, Any]) -> int:
    """The number of a row's class, or `UNKNOWN`."""
    return task.label_of(fields) if task.target(fields) in task.labels else UNKNOWN


def pad_labelled(rows: Sequence[LabelledRow], *, pad_id: int) -> Labelled:
    """Texts one below the other, padded on the right; what is padding is known by the mask, never by its id."""
    length = max(row.n_tokens for row in rows)
    ids = np.full((len(rows), length), pad_id, dtype=np.int64)
    mask = np.zeros((len(rows), length), dtype=np.int64)
    for number, row in enumerate(rows):
        ids[number, : len(row.ids)] = row.ids
        mask[number, : len(row.ids)] = 1
    return labelled(rows, {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)})


def labelled(rows: Sequence[LabelledRow], inputs: Mapping[str, torch.Tensor]) -> Labelled:
    """Rows and the tensors made of them."""
    return Labelled(
        inputs=inputs,
        targets=torch.tensor([row.label for row in rows], dtype=torch.long),
        owner=torch.arange(len(rows)),
        row_ids=tuple(row.id for row in rows),
    )
