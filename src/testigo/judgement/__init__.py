"""The judgement: is it better, by how much, at what cost elsewhere, and could the rows have told at all?

Paired statistics on the same rows before and after, exact where rows are few, with groups as the units that they are.
numpy and scipy alone. `docs/statistics.md` says for users what each verdict means::

    comparison = compare(baseline_lines, tuned_lines, metrics={"exact_match": "binary"}, hypothesis=campaign.hypothesis)
    print(comparison.conclusion)
"""

from __future__ import annotations

from testigo.judgement.binary import clopper_pearson, mcnemar_exact, rule_of_three, tango_interval
from testigo.judgement.classes import Classes, calibration, classes_of
from testigo.judgement.comparison import compare
from testigo.judgement.corpus_metric import compare_corpus
from testigo.judgement.decision import (
    Guard,
    GuardVerdict,
    Improvement,
    ImprovementVerdict,
    decide_guard,
    decide_improvement,
    holm,
)
from testigo.judgement.metric import value_of
from testigo.judgement.paired import Paired, compare_paired
from testigo.judgement.power import (
    detectable_effect,
    minimum_detectable_effect,
    smallest_decidable_margin,
)
from testigo.judgement.results import Comparison
from testigo.judgement.seeds import OverSeeds, over_seeds, two_way_interval
from testigo.judgement.units import bootstrap_interval, sign_flip, t_interval

__all__ = [
    "Classes",
    "Comparison",
    "Guard",
    "GuardVerdict",
    "Improvement",
    "ImprovementVerdict",
    "OverSeeds",
    "Paired",
    "bootstrap_interval",
    "calibration",
    "classes_of",
    "clopper_pearson",
    "compare",
    "compare_corpus",
    "compare_paired",
    "decide_guard",
    "decide_improvement",
    "detectable_effect",
    "holm",
    "mcnemar_exact",
    "minimum_detectable_effect",
    "over_seeds",
    "rule_of_three",
    "sign_flip",
    "smallest_decidable_margin",
    "t_interval",
    "tango_interval",
    "two_way_interval",
    "value_of",
]
