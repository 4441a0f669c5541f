"""The record: everything that the report says, as one tree of plain values.

The HTML page, the JSON twin and the model card are three renderings of this tree, so they cannot disagree. Times are
ISO 8601 text, durations are seconds, shares run from 0 to 1, losses are nats per supervised token. What was not
measured is None; what is missing altogether is named in `Record.missing` with its reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from testigo.rules import Finding, NotChecked, Passed

FORMAT = 1


@dataclass(frozen=True)
class Missing:
    """A part of the dossier that is not there, and why."""

    part: str
    why: str


@dataclass(frozen=True)
class Guard:
    """A metric that must not fall by more than `within`."""

    metric: str
    within: float


@dataclass(frozen=True)
class Hypothesis:
    """What was promised before any compute."""

    metric: str
    by: float
    guards: tuple[Guard, ...]
    alpha: float


@dataclass(frozen=True)
class Variant:
    """A declared departure from the control."""

    name: str
    settings: dict[str, Any]
    because: str


@dataclass(frozen=True)
class Plan:
    """The campaign file, read."""

    name: str
    question: str
    identity: str
    task: str
    metrics: dict[str, str]
    base: str
    settings: dict[str, Any]
    seeds: tuple[int, ...]
    variants: tuple[Variant, ...]
    price_per_hour: float | None
    currency: str
    language: str
    text: str


@dataclass(frozen=True)
class Registration:
    """The freeze of the hypothesis in the ledger."""

    number: int
    time: str
    digest: str
    identity: str


@dataclass(frozen=True)
class Amendment:
    """A change after the freeze, with what was already known when it was made."""

    number: int
    time: str
    reason: str
    changes: tuple[str, ...]
    known: str
    identity: str


@dataclass(frozen=True)
class Waiver:
    """A rule that was set aside with words."""

    code: str
    reason: str
    time: str
    observed: str


@dataclass(frozen=True)
class Opening:
    """One opening of the sealed test."""

    number: int
    time: str
    reason: str


@dataclass(frozen=True)
class Note:
    """An entry of the notebook."""

    number: int
    time: str
    text: str
    run: str


@dataclass(frozen=True)
class Source:
    """A file that rows came from."""

    file: str
    sha256: str
    rows: int | None


@dataclass(frozen=True)
class CleaningStep:
    """What one cleaning step did."""

    step: str
    changed: int
    dropped: int


@dataclass(frozen=True)
class Split:
    """One split of the rows."""

    name: str
    rows: int
    groups: int | None
    sha256: str
    categories: dict[str, int]


@dataclass(frozen=True)
class Dropped:
    """Rows left out for one reason; `rows` names the first of them."""

    reason: str
    n_rows: int
    rows: tuple[str, ...]


@dataclass(frozen=True)
class Data:
    """The rows, identified and counted."""

    fingerprint: str
    sources: tuple[Source, ...]
    cleaning: tuple[CleaningStep, ...]
    duplicates: dict[str, int]
    splits: tuple[Split, ...]
    split_rule: str
    dropped: tuple[Dropped, ...]
    samples: str


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


@dataclass(frozen=True)
class Example:
    """One row before and after. Texts are shortened; the full outputs are in `predictions/`."""

    row: str
    category: str
    kind: str
    prompt: str
    target: str
    before: str
    after: str


@dataclass(frozen=True)
class PredictionFile:
    """Row-by-row outputs kept in the dossier."""

    file: str
    of: str
    split: str
    rows: int
    sha256: str
    settings: dict[str, Any]


@dataclass(frozen=True)
class Comparison:
    """The statistics, where they come from, and whether they were found again from the rows."""

    split: str
    run: str
    baseline_file: str
    tuned_file: str
    variant_files: dict[str, str]
    seed_files: dict[str, str]
    bootstrap_seed: int
    statistics: dict[str, Any]
    recomputed: bool | None
    differences: tuple[str, ...]
    detectable_effect: float | None


@dataclass(frozen=True)
class Adapter:
    """The exported adapter and the base it is bound to."""

    base: str
    base_revision: str
    base_weights_sha256: str
    base_code_sha256: str
    trained_tensors: int
    control_rows: int
    files: dict[str, str]


@dataclass(frozen=True)
class LedgerFacts:
    """The ledger's extent and its chain."""

    events: int
    first_time: str
    last_time: str
    last_digest: str
    faults: tuple[str, ...]
    kinds: dict[str, int]


@dataclass(frozen=True)
class Record:
    """The whole dossier as values.

    `comparison` is the one that decides: on the sealed test once that was opened, else on the validation rows. When it
    is on the test, `on_validation` keeps the one before.
    """

    format: int
    testigo_version: str
    plan: Plan
    hypothesis: Hypothesis
    registration: Registration | None
    amendments: tuple[Amendment, ...]
    waivers: tuple[Waiver, ...]
    openings: tuple[Opening, ...]
    notes: tuple[Note, ...]
    data: Data | None
    baseline: dict[str, float]
    n_baseline: int
    gates: Gates | None
    runs: tuple[Run, ...]
    comparison: Comparison | None
    on_validation: Comparison | None
    examples: tuple[Example, ...]
    generations: tuple[Generation, ...]
    times: tuple[PlannedTime, ...]
    predictions: tuple[PredictionFile, ...]
    adapter: Adapter | None
    environment: dict[str, str]
    drawn_with: dict[str, str]
    ledger: LedgerFacts
    missing: tuple[Missing, ...]
