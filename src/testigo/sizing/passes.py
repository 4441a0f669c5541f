"""One pass through the model, as training and evaluation make it: rows laid out, logits where they are needed."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from testigo.campaign import Campaign
from testigo.encoding import Batch, Labelled, lay_out
from testigo.encoding import pack as laid_together
from testigo.model.layout import Layout, layout_of
from testigo.model.losses import token_losses
from testigo.model.prefix import SharedPrefix
from testigo.model.sharding import is_sharded
from testigo.model.streamed import can_stream, piece_of
from testigo.sizing.lengths import Inputs, RowLength
from testigo.sizing.tracker import Tracker


class _Pick(torch.autograd.Function):
    """`logits[places]`, whose gradient torch writes in place for real tensors, and into one more copy for fake ones."""

    @staticmethod
    def forward(context: Any, logits: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """(N, vocabulary) to (S, vocabulary)."""
        context.shape = logits.shape
        context.save_for_backward(places)
        return logits[places]

    @staticmethod
    def backward(context: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        """(S, vocabulary) to (N, vocabulary)."""
        (places,), (gradient,) = context.saved_tensors, gradients
        whole = torch.zeros(context.shape, dtype=gradient.dtype)
        whole[places] = gradient
        return whole, None


@dataclass(frozen=True)
class Update:
    """The microbatches of an update that one process computes.

    Attributes
    ----------
    more
        In the place of microbatches that are there too and are not run.
    """

    packs: list[Batch]
    more: torch.Tensor


def layout_for(campaign: Campaign, inputs: Inputs, model: Any) -> Layout:
    """How the training lays these rows out: under the budget that its longest rows set."""
    if inputs.n_classes:
        return layout_of(campaign, model, ())
    longest = inputs.encoded(inputs.budget or inputs.microbatches[-1])
    validation = inputs.encoded(inputs.validation)
    return layout_of(campaign, model, longest, validation, sharded=is_sharded(model.parameters()))


def lay_update(campaign: Campaign, inputs: Inputs, layout: Layout, tracker: Tracker) -> Update:
    """An update as the loop lays it; of several processes what one with a largest pack computes."""
    rows: Any = inputs.update if inputs.n_classes else inputs.encoded(inputs.update)
    groups = layout.of_update(rows)
    own = groups.rows[-1:] if inputs.only_last else groups.rows
    packs = [_laid(campaign, inputs, tracker, rows, groups.before) for rows in own]
    size = sum(tensor.nbytes for tensor in _tensors_of(packs[-1]))
    more = torch.empty(inputs.n_more * size, dtype=torch.uint8)
    tracker.hold([more], "other")
    return Update(packs, more)


def lay_validation(campaign: Campaign, inputs: Inputs, layout: Layout, tracker: Tracker) -> Batch:
    """The largest batch of a validation as the loop lays it."""
    rows: Any = inputs.validation
    if inputs.n_classes:
        return _laid(campaign, inputs, tracker, rows, 0)
    beside = () if inputs.beside is None else (inputs.beside,)
    before = layout.of_validation(inputs.encoded((*rows, *beside)), len(rows)).before
    return _laid(campaign, inputs, tracker, inputs.encoded(rows), before)


def lay_for_a_head(campaign: Campaign, inputs: Inputs, tracker: Tracker, rows: Sequence[RowLength]) -> Batch:
    """Rows of these lengths, or images, before a class head."""
    return _laid(campaign, inputs, tracker, rows, 0)


def _laid(campaign: Campaign, inputs: Inputs, tracker: Tracker, rows: Sequence[Any], before: int) -> Batch:
    """One microbatch; its tensors are known to the tracker."""
    batch: Batch
    if inputs.n_classes:
        batch = inputs.before_a_head(rows)
    elif before:
        batch = laid_together(rows, before=before)
    else:
        batch = lay_out(rows, campaign.encoding.layout, pad_id=0)
    tracker.hold(_tensors_of(batch), "other")
    return batch


def _tensors_of(batch: Batch) -> list[torch.Tensor]:
    if isinstance(batch, Labelled):
        return [*batch.inputs.values(), batch.targets, batch.owner]
    return [value for value in vars(batch).values() if isinstance(value, torch.Tensor)]


def losses_of(model: Any, pack: Batch, prefix: SharedPrefix | None = None) -> torch.Tensor:
    """(S,) the loss of each supervised token."""
    if isinstance(pack, Labelled) or pack.input_ids.shape[0] == 1:
        return token_losses(model, pack, prefix)
    inputs = {"input_ids": pack.input_ids, "position_ids": pack.position_ids, "attention_mask": pack.attention_mask}
    logits = _Pick.apply(model(**inputs, use_cache=False).logits.flatten(0, 1), pack.places)  # (S, vocabulary)
    return cross_entropy(logits.float(), pack.targets, reduction="none")


MOST_PIECES = 24
"""Of losses that are computed in pieces under a budget of logits so many are run: each comes and goes as the others."""


def shortened(model: Any, batch: Batch) -> tuple[Batch, tuple[torch.Tensor, ...]]:
    """A pack with as many targets as that many pieces hold, and what all others keep beside their logits.

    A target keeps what the head reads of it, and the gradient of that.
    """
    if isinstance(batch, Labelled) or batch.until is None or not can_stream(model):
        return batch, ()
    text = model.config.get_text_config()
    most = MOST_PIECES * piece_of(text.vocab_size)
    n_more = len(batch.targets) - most
    if n_more <= 0:
        return batch, ()
    kept = tuple(torch.empty((n_more, text.hidden_size), dtype=model.dtype) for _ in range(2))
    return replace(batch, places=batch.places[:most], targets=batch.targets[:most]), kept


def precision_of(campaign: Campaign) -> Any:
    """Mixed precision for a pass; nothing for fp32."""
    if campaign.model.precision == "fp32":
        return contextlib.nullcontext()
    # Fake tensors are the CPU's, and the CPU casts to bf16 alone in all places; fp16 has the same size.
    return torch.autocast("cpu", dtype=torch.bfloat16)
