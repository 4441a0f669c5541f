"""The whole record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from testigo.dossier.record.data import Data
from testigo.dossier.record.outcome import Adapter, BesideFile, Comparison, Example, PredictionFile
from testigo.dossier.record.promised import Amendment, Hypothesis, Note, Opening, Plan, Registration, Waiver
from testigo.dossier.record.runs import Gates, Generation, PlannedTime, Run

FORMAT: Final = 1


@dataclass(frozen=True)
class Missing:
    """A part of the dossier that is not there, and why."""

    part: str
    why: str


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

    format: Literal[1]
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
    beside_files: tuple[BesideFile, ...]
    adapter: Adapter | None
    environment: dict[str, str]
    drawn_with: dict[str, str]
    ledger: LedgerFacts
    missing: tuple[Missing, ...]
