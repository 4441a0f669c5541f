"""Evidence about the first forward pass and its loss, and the rules over it (codes F)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ForwardEvidence:
    """What the first forward pass showed, in evaluation mode. `None` means that it was not measured."""

    rows: tuple[str, ...] | None = None
    """Ids of the rows of the batch."""
    precision: str | None = None
    """fp32, bf16 or fp16: in which numbers the model computes."""
    loss: float | None = None
    """Loss as training computes it, nats per supervised token."""
    loss_fp32: float | None = None
    """The same batch, recomputed from raw logits in fp32 by another path."""
    logits_finite: bool | None = None
    """Whether every logit at a supervised place is finite."""
    base_row_loss: float | None = None
    """Loss of the untouched base on the same rows, each alone, nats per supervised token."""
    vocabulary_size: int | None = None
    """Number of classes that the logits choose from."""
    packed_vs_alone: float | None = None
    """Largest difference of logits between a pack and each row alone, divided by the largest logit's size."""
    padded_vs_alone: float | None = None
    """The same for a padded batch."""
    perturbed_neighbour: float | None = None
    """Largest change of a row's logits when its neighbour in the pack is changed."""
    shuffled_label_loss: float | None = None
    """Loss of the same inputs when the labels are shuffled between places, nats per supervised token."""
    shifted_label_loss: float | None = None
    """The lower loss of the same inputs with labels moved one place to the left or right."""
    evaluation_twice: float | None = None
    """Largest difference of the loss when the batch is evaluated twice."""
    zero_loss: bool | None = None
    """Whether the loss is exactly zero."""
    weights_intact: bool | None = None
    """Whether weights have the same digest before and after they went to the device."""
