"""The pilot and the runs, whatever became of them."""

from __future__ import annotations

from dataclasses import dataclass

from testigo.rules import Finding, NotChecked, Passed


@dataclass(frozen=True)
class Phase:
    """One phase of the pilot: inputs, memory, time, verdict."""

    phase: str
    inputs: str
    allocated_peak_bytes: int | None
    reserved_peak_bytes: int | None
    resident_before_bytes: int | None
    resident_peak_bytes: int | None
    seconds: float | None
    verdict: str


@dataclass(frozen=True)
class Gates:
    """The pilot's verdict and what it rests on."""

    finished: bool
    ok: bool
    phases: tuple[Phase, ...]
    findings: tuple[Finding, ...]
    passed: tuple[Passed, ...]
    not_checked: tuple[NotChecked, ...]
    platform: dict[str, str]


@dataclass(frozen=True)
class ValidationPoint:
    """One validation during training."""

    update: int
    loss_nats_per_token: float | None
    tokens: int | None


@dataclass(frozen=True)
class SamplePoint:
    """The fixed prompts at one validation: the mean of the improvement's metric over them."""

    update: int
    score: float


@dataclass(frozen=True)
class Curve:
    """The run step by step, as columns of one length; a number that was not finite is None."""

    updates: tuple[int, ...]
    losses: tuple[float | None, ...]
    learning_rates: tuple[float | None, ...]
    gradient_norms: tuple[float | None, ...]
    n_not_finite: int
    n_skipped: int
    validation: tuple[ValidationPoint, ...]


@dataclass(frozen=True)
class RunFinding:
    """A diagnosis made while the run went on."""

    update: int | None
    finding: Finding


@dataclass(frozen=True)
class Run:
    """One run, whatever became of it."""

    id: str
    variant: str
    seed: int
    state: str
    cause: str
    updates: int | None
    attempts: int
    seconds: float | None
    cost: float | None
    best_update: int | None
    best_validation_loss: float | None
    supervised_tokens: int | None
    examples: int | None
    trained_tensors: int | None
    trained_parameters: int | None
    trained_share: float | None
    weights_sha256: str
    invalid_because: str
    scores: dict[str, float]
    n_scored: int
    findings: tuple[RunFinding, ...]
    samples: tuple[SamplePoint, ...]
    curve: Curve | None


@dataclass(frozen=True)
class Generated:
    """An output to a fixed prompt at some update, shortened; `score` is that of the improvement's metric."""

    update: int
    text: str
    score: float | None


@dataclass(frozen=True)
class Generation:
    """One fixed prompt over the checkpoints of the compared run."""

    row: str
    target: str
    outputs: tuple[Generated, ...]


@dataclass(frozen=True)
class PlannedTime:
    """A piece of the campaign: planned from the pilot without margin, and real by the ledger; None where not done."""

    piece: str
    planned_seconds: float
    real_seconds: float | None
