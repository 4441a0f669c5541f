"""One pass through the model, as training and evaluation make it: rows laid out, logits where they are needed."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from testigo.campaign import Campaign
from testigo.encoding import Batch, Labelled, Pack, bins, lay_out, n_laid
from testigo.encoding import pack as laid_together
from testigo.model.streamed import can_stream, streamed_losses
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


def lay(campaign: Campaign, inputs: Inputs, tracker: Tracker, rows: Sequence[RowLength]) -> Batch:
    """Rows of these lengths as one microbatch; its tensors are known to the tracker."""
    if inputs.n_classes:
        batch = inputs.before_a_head(rows)
        tracker.hold((*batch.inputs.values(), batch.targets, batch.owner), "other")
        return batch
    pack = lay_out(inputs.encoded(rows), campaign.encoding.layout, pad_id=0)
    tracker.hold((value for value in vars(pack).values() if isinstance(value, torch.Tensor)), "other")
    return pack


def lay_update(campaign: Campaign, inputs: Inputs, tracker: Tracker) -> list[Batch]:
    """The microbatches of an update as the loop lays them: packs under the budget that the longest ones set."""
    groups = inputs.microbatches
    if inputs.n_classes or campaign.encoding.layout == "padded":
        return [lay(campaign, inputs, tracker, rows) for rows in groups]
    rows = inputs.encoded([row for group in groups for row in group])
    budget = max(n_laid(inputs.encoded(group)) for group in groups)
    packs = [laid_together([rows[k] for k in own]) for own in bins(rows, most_tokens=budget)]
    for own in packs:
        tracker.hold((value for value in vars(own).values() if isinstance(value, torch.Tensor)), "other")
    return list(packs)


def losses_of(model: Any, pack: Batch) -> torch.Tensor:
    """(S,) the loss of each supervised token."""
    if not isinstance(pack, Labelled) and pack.until is not None and can_stream(model):
        return streamed_losses(model, _read(pack), pack.places, pack.targets)
    return cross_entropy(logits_of(model, pack), pack.targets, reduction="none")


def logits_of(model: Any, pack: Batch) -> torch.Tensor:
    """(S, vocabulary) logits in fp32."""
    if isinstance(pack, Labelled):
        chosen: torch.Tensor = model(**pack.inputs).logits  # (B, classes)
        return chosen.float()
    inputs = _read(pack)
    if pack.input_ids.shape[0] == 1:
        logits = model(**inputs, logits_to_keep=pack.places).logits[0]  # (S, vocabulary)
    else:
        logits = _Pick.apply(model(**inputs).logits.flatten(0, 1), pack.places)  # (S, vocabulary)
    return logits.float()


def _read(pack: Pack) -> dict[str, Any]:
    """What a model reads of a pack."""
    return {
        "input_ids": pack.input_ids,
        "position_ids": pack.position_ids,
        "attention_mask": pack.attention_mask,
        "use_cache": False,
    }


def precision_of(campaign: Campaign) -> Any:
    """Mixed precision for a pass; nothing for fp32."""
    if campaign.model.precision == "fp32":
        return contextlib.nullcontext()
    # Fake tensors are the CPU's, and the CPU casts to bf16 alone in all places; fp16 has the same size.
    return torch.autocast("cpu", dtype=torch.bfloat16)
