"""One loss and one normalisation: the sum of token losses over the supervised tokens of the whole update."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import torch

from testigo.campaign import Campaign
from testigo.encoding import Batch
from testigo.model.losses import token_losses
from testigo.model.prefix import prefix_of
from testigo.tasks import is_answered_by_head


def n_choices(model: Any, settings: Campaign) -> int:
    """Among how many a target is chosen: the classes of a head, or the rows of the input embedding."""
    if is_answered_by_head(settings):
        return int(model.config.num_labels)
    return int(model.get_input_embeddings().weight.shape[0])


def row_losses(losses: torch.Tensor, pack: Batch) -> dict[str, float]:
    """The mean loss of each row's supervised tokens [nats per token], by row id."""
    n = len(pack.row_ids)
    sums = torch.zeros(n, dtype=torch.float64, device=losses.device).index_add_(0, pack.owner, losses.detach().double())
    counts = torch.bincount(pack.owner, minlength=n).clamp(min=1)
    return dict(zip(pack.row_ids, (sums / counts).tolist(), strict=True))


@dataclass(frozen=True)
class SplitLoss:
    """The loss over a whole split: independent of how its rows were laid into batches up to rounding."""

    sum_nats: float
    n_tokens: int
    rows: dict[str, float]

    @property
    def nats_per_token(self) -> float:
        """Token-weighted."""
        return self.sum_nats / max(self.n_tokens, 1)

    def __add__(self, other: SplitLoss) -> SplitLoss:
        return SplitLoss(self.sum_nats + other.sum_nats, self.n_tokens + other.n_tokens, self.rows | other.rows)


NOTHING = SplitLoss(0.0, 0, {})
"""What a sum of losses begins with."""


@contextlib.contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Evaluation mode without gradients; the former mode comes back."""
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(was_training)


def split_loss(
    model: Any, packs: Iterable[Batch], *, counts: Iterable[bool] = repeat(True), autocast: Any = None
) -> SplitLoss:
    """Token-weighted loss of a split, streamed: no logits outlive their batch. Sums are kept in double precision.

    Parameters
    ----------
    counts
        Whether each pack counts: one that is only computed beside other processes does not.
    """
    total, prefix = NOTHING, None
    with evaluating(model):
        for pack, is_counted in zip(packs, counts, strict=False):
            with autocast or contextlib.nullcontext():
                prefix = prefix or prefix_of(model, [pack])  # the same for all packs of a split
                losses = token_losses(model, pack, prefix)
            if is_counted:
                total += SplitLoss(float(losses.double().sum()), pack.n_supervised, row_losses(losses, pack))
    return total
