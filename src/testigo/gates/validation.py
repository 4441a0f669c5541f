"""Evidence about validation and generation, and the rules over it (codes V)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ValidationEvidence:
    """What a validation on the pilot's rows showed. `None` means that it was not measured."""

    precision: str | None = None
    """fp32, bf16 or fp16: in which numbers the model computes."""
    training_mode_during: bool | None = None
    """Whether any module was in training mode (dropout active) while validating."""
    losses_by_batch: dict[str, float] | None = None
    """Validation loss by batch size, nats per supervised token: {"1": 2.31, "4": 2.31}."""
    twice_difference: float | None = None
    """Difference of the validation loss when it is computed twice."""
    weights_changed: bool | None = None
    """Whether validating changed any weight."""
    random_state_changed: bool | None = None
    """Whether validating changed a random state that training draws from."""
    outputs_expected: int | None = None
    """Rows for which an output should have been written."""
    outputs_written: int | None = None
    """Rows for which an output was written."""
    empty_outputs: tuple[str, ...] | None = None
    """Ids of rows whose output is empty."""
    longest_generated: int | None = None
    """Tokens of the longest output."""
    max_new_tokens: int | None = None
    """Most tokens that an output may have."""
    stopped: int | None = None
    """Outputs that ended by themselves, with a stop token."""
    target_longest_tokens: int | None = None
    """Tokens of the longest target, its turn's end included."""
