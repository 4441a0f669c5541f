"""Evidence about a run that was stopped and goes on in a fresh process, and the rules over it (codes R)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ResumeEvidence:
    """The resumed run beside the uninterrupted one. `None` means that it was not measured."""

    fresh_process: bool | None = None
    """Whether another process went on."""
    device: str | None = None
    """cpu, cuda or rocm: where both ran."""
    updates_before: int | None = None
    """Updates done before the stop."""
    updates_after: int | None = None
    """Updates done after it."""
    zero_updates: bool | None = None
    """Whether the resumed run did no update at all."""
    rows_equal: bool | None = None
    """Whether each update saw the same rows in the same order."""
    losses_equal: bool | None = None
    """Whether each loss is the same bit for bit."""
    learning_rates_equal: bool | None = None
    """Whether each learning rate is the same bit for bit."""
    gradient_norms_equal: bool | None = None
    """Whether each gradient norm is the same bit for bit."""
    weights_equal: bool | None = None
    """Whether the trained weights at the end are the same bit for bit."""
    optimizer_equal: bool | None = None
    """Whether the optimizer's state at the end is the same bit for bit."""
    max_loss_difference: float | None = None
    """Largest difference between both runs' losses, nats per supervised token."""
    grade: str | None = None
    """bit for bit, within tolerance, or differs."""
    bad_moments: tuple[str, ...] | None = None
    """Names whose optimizer moments in the checkpoint are not finite, or negative where they are squares."""
    passed_over: tuple[str, ...] | None = None
    """Checkpoints that were newer, damaged, and passed over."""
