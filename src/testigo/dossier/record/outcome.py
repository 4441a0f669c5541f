"""The comparison and the files behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


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
class BesideFile:
    """A file behind what stands beside the result, as the ledger recorded it.

    Attributes
    ----------
    of
        `baseline`, or a run.
    what
        `twice` (the base once more), `prompted` (the base with examples), `guard` (another task, named by `task`), or
        `general` (losses of general text).
    """

    file: str
    of: str
    what: str
    task: str
    rows: int
    sha256: str


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
