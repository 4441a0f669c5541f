"""The gates: one file a phase, with its evidence record and the rules that judge it.

A worker measures and fills evidence records; rules judge them without a model::

    records = from_json(json.loads(text))
    verdict = judge(gate_rules(), records)
    verdict.ok

`all_rules` adds those of the watch, and `explain` finds any rule by its code.
"""

from __future__ import annotations

from testigo.gates.backward import BackwardEvidence
from testigo.gates.balance import BalanceEvidence
from testigo.gates.catalogue import all_rules, explain, gate_rules, rule_pages
from testigo.gates.classes import ClassesEvidence
from testigo.gates.data import DataEvidence
from testigo.gates.duplicates import DuplicateEvidence
from testigo.gates.evidence import Evidence, from_json, to_json
from testigo.gates.export import ExportEvidence
from testigo.gates.forward import ForwardEvidence
from testigo.gates.memory import MemoryEvidence
from testigo.gates.overfit import OverfitEvidence
from testigo.gates.processes import ProcessesEvidence
from testigo.gates.resume import ResumeEvidence
from testigo.gates.splits import SplitEvidence
from testigo.gates.update import UpdateEvidence
from testigo.gates.validation import ValidationEvidence

__all__ = [
    "BackwardEvidence",
    "BalanceEvidence",
    "ClassesEvidence",
    "DataEvidence",
    "DuplicateEvidence",
    "Evidence",
    "ExportEvidence",
    "ForwardEvidence",
    "MemoryEvidence",
    "OverfitEvidence",
    "ProcessesEvidence",
    "ResumeEvidence",
    "SplitEvidence",
    "UpdateEvidence",
    "ValidationEvidence",
    "all_rules",
    "explain",
    "from_json",
    "gate_rules",
    "rule_pages",
    "to_json",
]
