"""The losses of a pack's or batch's supervised places, as training computes them and sizing follows them."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.functional import cross_entropy

from testigo.encoding import Batch, Labelled, Pack
from testigo.model.attention import mask_for
from testigo.model.cache import with_cache
from testigo.model.prefix import SharedPrefix
from testigo.model.streamed import can_stream, streamed_losses


def supervised_logits(model: Any, pack: Batch) -> torch.Tensor:
    """(S, vocabulary) logits in fp32, computed only where a target stands when the layout allows it.

    Before a class head S is the number of rows, and the vocabulary its classes.
    """
    if isinstance(pack, Labelled):
        logits: torch.Tensor = model(**pack.inputs).logits  # (S, classes)
        return logits.float()
    inputs = _read_by(model, pack)
    if pack.input_ids.shape[0] == 1:
        logits = model(**inputs, logits_to_keep=pack.places).logits[0]  # (S, vocabulary)
    else:
        logits = model(**inputs).logits.flatten(0, 1)[pack.places]  # (S, vocabulary)
    return logits.float()


def _read_by(model: Any, pack: Pack, prefix: SharedPrefix | None = None) -> dict[str, Any]:
    """What a model reads of a pack; what stands before it in a cache is computed here where nobody did."""
    inputs = {
        "input_ids": pack.input_ids,
        "position_ids": pack.position_ids,
        "attention_mask": mask_for(model, pack),
    }
    if pack.before is None:
        return inputs | {"use_cache": False}
    return inputs | with_cache(model, (prefix or SharedPrefix(model, pack.before, is_own=True)).cache())


def token_losses(model: Any, pack: Batch, prefix: SharedPrefix | None = None) -> torch.Tensor:
    """(S,) the loss of each supervised token [nats].

    Parameters
    ----------
    prefix
        What stands before the pack, when it was computed for all packs of an update.
    """
    if isinstance(pack, Labelled) or pack.until is None or not can_stream(model):
        return cross_entropy(supervised_logits(model, pack), pack.targets, reduction="none")
    return streamed_losses(model, _read_by(model, pack, prefix), pack.places, pack.targets)
