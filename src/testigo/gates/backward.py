"""Evidence about gradients, and the rules over it (codes B)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class BackwardEvidence:
    """What the first backward passes showed. `None` means that it was not measured."""

    precision: str | None = None
    """fp32, bf16 or fp16: in which numbers the model computes."""
    trained: tuple[str, ...] | None = None
    """Names of the parameters that ask for a gradient."""
    declared: tuple[str, ...] | None = None
    """Names of the parameters that the adapter settings say are trained."""
    with_gradient: tuple[str, ...] | None = None
    """Names of the parameters that had a gradient tensor after the first backward."""
    nonzero_gradient: tuple[str, ...] | None = None
    """Names of the parameters whose gradient was not all zero after the first backward."""
    exempt: tuple[str, ...] | None = None
    """Names whose gradient must be zero at the first backward: LoRA's A, because B starts at zero."""
    gradient_elsewhere: tuple[str, ...] | None = None
    """Names of parameters outside the trained set that had a gradient."""
    nonfinite: tuple[str, ...] | None = None
    """Names of the parameters with NaN or infinity in the gradient."""
    loss_accumulated: float | None = None
    """Loss of one update over several microbatches, nats per supervised token."""
    loss_one_batch: float | None = None
    """Loss of the same rows as one batch, nats per supervised token."""
    accumulation_error: float | None = None
    """Size of the difference of both gradients divided by the size of the one batch's gradient."""
    gradient_twice_error: float | None = None
    """The same for one batch run twice without an update between."""
    checkpointing_error: float | None = None
    """The same with and without activation checkpointing."""
    new_tokens_frozen: tuple[str, ...] | None = None
    """Tokens that were added to the base, occur in rows, and whose embedding is not trained."""
