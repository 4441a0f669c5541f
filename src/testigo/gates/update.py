"""Evidence about updates of the parameters, and the rules over it (codes U)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class UpdateEvidence:
    """What the first two updates changed. `None` means that it was not measured."""

    trained: tuple[str, ...] | None = None
    """Names of the parameters that ask for a gradient."""
    in_optimizer: tuple[str, ...] | None = None
    """Names of the model's parameters that the optimizer holds."""
    foreign_in_optimizer: int | None = None
    """Parameters in the optimizer that are not the model's."""
    duplicates_in_optimizer: int | None = None
    """Parameters that the optimizer holds more than once."""
    moved_first: tuple[str, ...] | None = None
    """Names of the parameters that the first update changed."""
    moved: tuple[str, ...] | None = None
    """Names of the parameters that two updates changed."""
    frozen_changed: tuple[str, ...] | None = None
    """Names of parameters and buffers that should stay and are not the same bit for bit."""
    learning_rate_expected: tuple[float, ...] | None = None
    """Learning rate of each update by the campaign's schedule."""
    learning_rate_applied: tuple[float, ...] | None = None
    """Learning rate that the optimizer really used in each update."""
    updates_expected: int | None = None
    """Updates that the pilot asked for."""
    updates_counted: int | None = None
    """Updates that really happened."""
    schedule_length: int | None = None
    """Updates that the learning-rate schedule was built for."""
    planned_updates: int | None = None
    """Updates that the campaign plans."""
    skipped: int | None = None
    """Updates that the fp16 scaler skipped after an overflow."""
    clip: float | None = None
    """Largest gradient norm that the campaign allows; None when it does not clip."""
    gradient_norm_before_clip: float | None = None
    """Norm of the gradient before clipping."""
    gradient_norm_after_clip: float | None = None
    """Norm of the gradient that the optimizer received."""
    replica_digests: tuple[str, ...] | None = None
    """Digest of the replicated weights on each process after the updates."""
    seed_twice_equal: bool | None = None
    """Whether the same seed gave the same initial trained weights twice."""


@dataclass(frozen=True, kw_only=True)
class OverfitEvidence:
    """What learning a tiny subset by heart showed. It proves the mechanics and nothing about quality."""

    rows: int | None = None
    """Rows of the subset."""
    updates: int | None = None
    """Updates that were spent on it."""
    first_loss: float | None = None
    """Loss before the first update, nats per supervised token."""
    last_loss: float | None = None
    """Loss after the last update, nats per supervised token."""
    right_answers: int | None = None
    """Rows whose greedy output is the target exactly."""
    answers: int | None = None
    """Rows for which an output was written."""
    finite: bool | None = None
    """Whether every loss and gradient norm on the way was finite."""
