"""The watch: diagnoses over the curve of a run and over outputs, one file a diagnosis.

Live, a training loop feeds each step::

    watcher = Watcher(planned_learning_rates=rates, vocabulary_size=49152)
    for finding in watcher.feed(step): ...

Afterwards the same rules judge the whole curve: ``judge(all_rules(), [Curve.from_steps(lines)])``.
"""

from __future__ import annotations

from testigo.rules import Rule, collect
from testigo.watch.curve import Curve
from testigo.watch.outputs import Outputs
from testigo.watch.stream import Watcher

__all__ = ["Curve", "Outputs", "Watcher", "all_rules"]


def all_rules() -> tuple[Rule, ...]:
    """Every rule of the watch, sorted by code."""
    return collect("testigo.watch")
