"""The gates: one file a phase, with its evidence record and the rules that judge it.

A worker measures and fills evidence records; rules judge them without a model::

    records = from_json(json.loads(text))
    verdict = judge(all_rules(), records)
    verdict.ok
"""

from __future__ import annotations

from testigo.gates.backward import BackwardEvidence
from testigo.gates.data import DataEvidence
from testigo.gates.evidence import Evidence, from_json, to_json
from testigo.gates.export import ExportEvidence
from testigo.gates.forward import ForwardEvidence
from testigo.gates.memory import MemoryEvidence
from testigo.gates.overfit import OverfitEvidence
from testigo.gates.resume import ResumeEvidence
from testigo.gates.update import UpdateEvidence
from testigo.gates.validation import ValidationEvidence

__all__ = [
    "BackwardEvidence",
    "DataEvidence",
    "Evidence",
    "ExportEvidence",
    "ForwardEvidence",
    "MemoryEvidence",
    "OverfitEvidence",
    "ResumeEvidence",
    "UpdateEvidence",
    "ValidationEvidence",
    "from_json",
    "to_json",
]
