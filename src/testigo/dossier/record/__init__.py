"""The record: everything that the report says, as one tree of plain values.

The HTML page, the JSON twin and the model card are three renderings of this tree, so they cannot disagree. Times are
ISO 8601 text, durations are seconds, shares run from 0 to 1, losses are nats per supervised token. What was not
measured is None; what is missing altogether is named in `Record.missing` with its reason.
"""

from __future__ import annotations

from testigo.dossier.record.data import CleaningStep, Data, Dropped, Source, Split
from testigo.dossier.record.outcome import Adapter, BesideFile, Comparison, Example, PredictionFile
from testigo.dossier.record.promised import (
    Amendment,
    Guard,
    Hypothesis,
    Note,
    Opening,
    Plan,
    Registration,
    Variant,
    Waiver,
)
from testigo.dossier.record.runs import (
    Curve,
    Gates,
    Generated,
    Generation,
    Phase,
    PlannedTime,
    Run,
    RunFinding,
    SamplePoint,
    ValidationPoint,
)
from testigo.dossier.record.whole import FORMAT, LedgerFacts, Missing, Record

__all__ = [
    "FORMAT",
    "Adapter",
    "Amendment",
    "BesideFile",
    "CleaningStep",
    "Comparison",
    "Curve",
    "Data",
    "Dropped",
    "Example",
    "Gates",
    "Generated",
    "Generation",
    "Guard",
    "Hypothesis",
    "LedgerFacts",
    "Missing",
    "Note",
    "Opening",
    "Phase",
    "Plan",
    "PlannedTime",
    "PredictionFile",
    "Record",
    "Registration",
    "Run",
    "RunFinding",
    "SamplePoint",
    "Source",
    "Split",
    "ValidationPoint",
    "Variant",
    "Waiver",
]
