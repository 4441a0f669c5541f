"""The judgement: is it better, by how much, at what cost elsewhere, and could the rows have told at all?

Paired statistics on the same rows before and after, exact where rows are few, with groups as the units that they are.
numpy and scipy alone. `docs/statistics.md` says for users what each verdict means::

    comparison = compare(baseline_lines, tuned_lines, metrics={"exact_match": "binary"}, hypothesis=campaign.hypothesis)
    print(comparison.conclusion)
"""

from __future__ import annotations

from testigo.judgement.binary import clopper_pearson, mcnemar_exact, rule_of_three, tango_interval
from testigo.judgement.comparison import Comparison, compare
from testigo.judgement.decision import (
    Guard,
    GuardVerdict,
    Improvement,
    ImprovementVerdict,
    decide_guard,
    decide_improvement,
    holm,
)
from testigo.judgement.paired import Paired, compare_paired
from testigo.judgement.power import minimum_detectable_effect, smallest_decidable_margin
from testigo.judgement.seeds import OverSeeds, over_seeds, two_way_interval
from testigo.judgement.units import bootstrap_interval, sign_flip, t_interval

__all__ = [
    "Comparison",
    "Guard",
    "GuardVerdict",
    "Improvement",
    "ImprovementVerdict",
    "OverSeeds",
    "Paired",
    "bootstrap_interval",
    "clopper_pearson",
    "compare",
    "compare_paired",
    "decide_guard",
    "decide_improvement",
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
]
