"""The watch: diagnoses over the curve of a run and over outputs, one file a diagnosis.

Live, a training loop feeds each step::

    watcher = Watcher(planned_learning_rates=rates, vocabulary_size=49152)
    for finding in watcher.feed(step): ...

Afterwards the same rules judge the whole curve: ``judge(all_rules(), [Curve.from_steps(lines)])``.

Reading order: `curve` and `robust` (what rules look at, and how noise is measured), then any diagnosis; `stream`
(live); `outputs` and the diagnoses over them; `origin`; `logs/` (runs that Testigo did not make); `trackers/`.
"""

from __future__ import annotations

from testigo.rules import Rule, collect
from testigo.watch.copying import Copies, find_copies
from testigo.watch.curve import Curve
from testigo.watch.forgetting import Retention
from testigo.watch.guards import Guarded
from testigo.watch.memorising import Recall
from testigo.watch.origin import Origin
from testigo.watch.outputs import Outputs
from testigo.watch.stream import Watcher

__all__ = [
    "Copies",
    "Curve",
    "Guarded",
    "Origin",
    "Outputs",
    "Recall",
    "Retention",
    "Watcher",
    "all_rules",
    "find_copies",
]


def all_rules() -> tuple[Rule, ...]:
    """Every rule of the watch, sorted by code."""
    return collect("testigo.watch")
