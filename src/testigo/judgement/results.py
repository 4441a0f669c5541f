"""The values that a comparison is made of, and their JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from testigo.campaign.records import ComparisonRecord, forest, metrics_table
from testigo.campaign.tables import Table
from testigo.judgement.classes import Classes
from testigo.judgement.decision import Guard, Improvement, ImprovementVerdict
from testigo.judgement.forgetting import Forgetting
from testigo.judgement.noise import NoiseFloor, Prompted
from testigo.judgement.paired import Paired
from testigo.judgement.seeds import OverSeeds


@dataclass(frozen=True)
class Category:
    """One category: its metrics, and a verdict for each. p-values are corrected over the categories."""

    n: int
    metrics: dict[str, Paired]
    verdicts: dict[str, str]

    def to_json(self) -> dict[str, Any]:
        """Paired numbers and verdict of each metric."""
        metrics = {name: {**paired.to_json(), "verdict": self.verdicts[name]} for name, paired in self.metrics.items()}
        return {"n": self.n, "metrics": metrics}


@dataclass(frozen=True)
class Variant:
    """One variant against the baseline and against the control. p-values are corrected over the variants."""

    values: dict[str, float]
    improvement: Improvement
    guards: tuple[Guard, ...]
    against_control: Paired
    better_than_control: bool

    def to_json(self) -> dict[str, Any]:
        """Its metric values by name, and beside them what they mean."""
        return {
            **self.values,
            "improvement": self.improvement.to_json(),
            "guards": [guard.to_json() for guard in self.guards],
            "against_control": self.against_control.to_json(),
            "better_than_control": self.better_than_control,
        }


@dataclass(frozen=True)
class Clean:
    """The same metrics on the rows that have no copy or near copy among the training rows.

    `verdict` judges the registered improvement on these rows alone; None where no row is left.
    """

    n: int
    left_out: tuple[str, ...]
    metrics: dict[str, Paired]
    verdict: ImprovementVerdict | None

    def to_json(self) -> dict[str, Any]:
        """All fields as a JSON object."""
        return {**asdict(self), "left_out": list(self.left_out)}


@dataclass(frozen=True)
class Comparison:
    """All that a comparison says. `rows` are about the metric that was to improve.

    `classes` is there for tasks with classes, `clean` where it is known which rows have copies in training.
    `forgetting`, `noise_floor` and `prompted_baseline` follow from other outputs than those of baseline and runs.
    """

    baseline: dict[str, float]
    control: dict[str, float]
    metrics: dict[str, Paired]
    improvement: Improvement
    guards: tuple[Guard, ...]
    categories: dict[str, Category]
    rows: dict[str, tuple[str, ...]]
    same_outputs: int
    conclusion: str
    variants: dict[str, Variant] = field(default_factory=dict)
    seeds: OverSeeds | None = None
    classes: Classes | None = None
    clean: Clean | None = None
    forgetting: Forgetting | None = None
    noise_floor: NoiseFloor | None = None
    prompted_baseline: Prompted | None = None

    @property
    def told(self) -> str:
        """The conclusion, with what was forgotten where that was registered."""
        return " ".join(filter(None, [self.conclusion, self.forgetting.conclusion if self.forgetting else ""]))

    @property
    def table(self) -> Table:
        """One line a metric, for notebooks."""
        return metrics_table({name: paired.to_json() for name, paired in self.metrics.items()})

    def chart(self) -> Any:
        """An Altair forest plot of the differences."""
        return forest(self.table)

    def _repr_html_(self) -> str:
        return ComparisonRecord(self.to_json())._repr_html_()

    def to_json(self) -> dict[str, Any]:
        """The document that `testigo compare --json` prints."""
        return {
            "baseline": self.baseline,
            "control": self.control,
            "improvement": self.improvement.to_json(),
            "guards": [guard.to_json() for guard in self.guards],
            "metrics": {name: paired.to_json() for name, paired in self.metrics.items()},
            "categories": {name: category.to_json() for name, category in self.categories.items()},
            "rows": {name: list(ids) for name, ids in self.rows.items()},
            "same_outputs": self.same_outputs,
            "conclusion": self.conclusion,
            "variants": {name: variant.to_json() for name, variant in self.variants.items()},
            "seeds": self.seeds.to_json() if self.seeds else None,
            "classes": self.classes.to_json() if self.classes else None,
            "clean": self.clean.to_json() if self.clean else None,
            **self._beside(),
        }

    def _beside(self) -> dict[str, Any]:
        """What was measured beside the rows' own scores, where it was."""
        parts = {name: getattr(self, name) for name in ("forgetting", "noise_floor", "prompted_baseline")}
        return {name: part.to_json() for name, part in parts.items() if part is not None}
