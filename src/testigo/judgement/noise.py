"""The base against itself, and the base with examples: what stands beside the registered result."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from testigo.judgement.binary import clopper_pearson
from testigo.judgement.lines import Line, pair_up
from testigo.judgement.metric import compare_metric, value_of
from testigo.judgement.paired import Paired

#: Scores that lie no further apart are equal up to rounding in fp32 (epsilon 1.2e-7).
ROUNDING = 1e-6


@dataclass(frozen=True)
class NoiseFloor:
    """Two evaluations of the base on the same rows.

    Attributes
    ----------
    n
        Rows that were answered twice.
    different
        Of these, rows with another output the second time; `rows` names them. Other batches round probabilities
        otherwise; a class that stays is the same output.
    share, low, high
        Their share, and its exact interval at 95 %.
    metrics
        Metric -> rows whose score changed, and by how much the mean moved.
    """

    n: int
    different: int
    rows: tuple[str, ...]
    share: float
    low: float
    high: float
    metrics: dict[str, dict[str, float]]

    def to_json(self) -> dict[str, Any]:
        """All fields as a JSON object."""
        return {**asdict(self), "rows": list(self.rows)}


def noise_floor_of(first: Sequence[Line], again: Sequence[Line], metrics: Mapping[str, str]) -> NoiseFloor | None:
    """How far the base disagrees with itself; None where no row was answered twice.

    A difference between base and tuned model that is no larger says nothing about the training.

    Source: the exact interval of a share, Clopper and Pearson 1934.
    """
    twice = {str(line["row"]): line for line in again}
    old = [line for line in first if str(line["row"]) in twice]
    if not old:
        return None
    new = [twice[str(line["row"])] for line in old]
    rows = tuple(str(a["row"]) for a, b in zip(old, new, strict=True) if a.get("output") != b.get("output"))
    low, high = clopper_pearson(len(rows), len(old))
    moved = {}
    for metric, kind in metrics.items():
        changed = 0 if kind == "corpus" else sum(
            _is_another(a["scores"].get(metric), b["scores"].get(metric)) for a, b in zip(old, new, strict=True)
        )  # fmt: skip
        moved[metric] = {
            "changed": changed if kind != "corpus" else len(rows),
            "difference": value_of(new, metric, kind) - value_of(old, metric, kind),
        }
    return NoiseFloor(len(old), len(rows), rows, len(rows) / len(old), low, high, moved)


def _is_another(before: float | None, after: float | None) -> bool:
    if before is None or after is None:
        return before is not after
    return not math.isclose(before, after, rel_tol=ROUNDING, abs_tol=ROUNDING)


@dataclass(frozen=True)
class Prompted:
    """The base with examples in its prompt, against the base without and against the control.

    `metrics` goes from the base to the base with examples, `control` from there to the control.
    """

    examples: int
    values: dict[str, float]
    metrics: dict[str, Paired]
    control: dict[str, Paired]

    def to_json(self) -> dict[str, Any]:
        """All fields as a JSON object."""
        return {
            "examples": self.examples,
            "values": self.values,
            "metrics": {name: paired.to_json() for name, paired in self.metrics.items()},
            "control": {name: paired.to_json() for name, paired in self.control.items()},
        }


def prompted_of(
    base: Sequence[Line],
    prompted: Sequence[Line],
    control: Sequence[Line],
    *,
    metrics: Mapping[str, str],
    examples: int,
    alpha: float,
) -> Prompted:
    """The three on the same rows. The prompts differ on purpose, and are not held against each other."""
    plain = [[{key: value for key, value in line.items() if key != "prompt_sha256"} for line in side]
             for side in (base, prompted, control)]  # fmt: skip
    first = pair_up(plain[0], plain[1], metrics, "the base with examples")
    second = pair_up(plain[1], plain[2], metrics, "the control")
    return Prompted(
        examples,
        {name: value_of(plain[1], name, kind) for name, kind in metrics.items()},
        {name: compare_metric(first, name, kind, alpha, 0) for name, kind in metrics.items()},
        {name: compare_metric(second, name, kind, alpha, 0) for name, kind in metrics.items()},
    )
