from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, confusion_matrix, precision_recall_fscore_support

from testigo.errors import DataError
from testigo.judgement import calibration, classes_of, compare

NAMES = ["billing", "login", "other", "shipping"]
METRICS = {"accuracy": "binary", "macro_f1": "corpus"}


@dataclass(frozen=True)
class Improve:
    metric: str = "macro_f1"
    by: float = 0.10


@dataclass(frozen=True)
class Keep:
    metric: str = "accuracy"
    within: float = 0.05


@dataclass(frozen=True)
class Hypothesis:
    improve: Improve = field(default_factory=Improve)
    keep: tuple[Keep, ...] = (Keep(),)
    alpha: float = 0.05


def lines(targets: list[str], outputs: list[str], probabilities: list[dict[str, float]] | None = None) -> list[Any]:
    return [
        {
            "row": f"r{k}",
            "category": "",
            "group": f"g{k}",
            "output": output,
            "target": target,
            "scores": {"accuracy": float(output == target)},
            **({"probabilities": probabilities[k]} if probabilities else {}),
        }
        for k, (target, output) in enumerate(zip(targets, outputs, strict=True))
    ]


def drawn(seed: int, n: int = 80, right: float = 0.6) -> tuple[list[str], list[str]]:
    rng = np.random.default_rng(seed)
    targets = [NAMES[k] for k in rng.choice(4, n, p=[0.55, 0.25, 0.15, 0.05])]
    return targets, [t if rng.random() < right else NAMES[rng.integers(4)] for t in targets]


@pytest.mark.parametrize("seed", range(5))
def test_each_class_has_the_numbers_of_scikit_learn(seed: int) -> None:
    targets, outputs = drawn(seed)
    found = classes_of(lines(targets, targets), lines(targets, outputs)).control
    names = sorted(set(targets))
    precision, recall, f1, support = precision_recall_fscore_support(targets, outputs, labels=names, zero_division=0)
    for k, name in enumerate(names):
        one = found.per_class[name]
        assert (one.precision or 0.0, one.recall, one.f1) == pytest.approx((precision[k], recall[k], f1[k]))
        assert one.rows == support[k]
    assert found.confusion == tuple(map(tuple, confusion_matrix(targets, outputs, labels=names).tolist()))
    assert found.accuracy == pytest.approx(accuracy_score(targets, outputs))
    for average in ("macro", "micro"):
        theirs = precision_recall_fscore_support(targets, outputs, labels=names, average=average, zero_division=0)[:3]
        assert tuple(getattr(found, average).values()) == pytest.approx(theirs)


def test_a_text_that_is_no_class_is_counted_beside_the_confusion() -> None:
    found = classes_of(lines(["a", "b"], ["a", "b"]), lines(["a", "b"], ["a", "I think b"])).control
    assert found.confusion == ((1, 0), (0, 0))
    assert found.no_class == (0, 1)
    assert found.per_class["b"].precision is None
    assert found.micro["precision"] == 1.0
    assert found.micro["recall"] == 0.5


def test_a_class_of_the_head_that_no_row_holds_is_listed_and_not_averaged() -> None:
    probabilities = [{"a": 0.6, "b": 0.3, "c": 0.1}] * 2
    found = classes_of(lines(["a", "b"], ["a", "a"], probabilities), lines(["a", "b"], ["a", "b"], probabilities))
    assert found.names == ("a", "b", "c")
    assert found.rows == {"a": 1, "b": 1, "c": 0}
    assert found.control.per_class["c"].recall is None
    assert found.control.macro["recall"] == 1.0


def test_imbalance_and_the_majority_are_told() -> None:
    targets = ["a"] * 12 + ["b"] * 6 + ["c"] * 2
    found = classes_of(lines(targets, targets), lines(targets, targets))
    assert found.imbalance == 6
    assert found.majority == ("a", 0.6)
    assert found.to_json()["majority"] == {"class": "a", "share": 0.6}


def test_calibration_error_by_hand() -> None:
    # Two bins of ten: 0.95 and 0.95 with one right, 0.55 and 0.58 with both right.
    highest, right = [0.95, 0.95, 0.55, 0.58], [True, False, True, True]
    made = [
        {"target": "a", "output": "a" if ok else "b", "probabilities": {"a": p, "b": 1 - p}}
        for p, ok in zip(highest, right, strict=True)
    ]
    ece, bins = calibration(made, n_bins=10)
    assert [(one.rows, one.confidence, one.accuracy) for one in bins] == [
        (2, pytest.approx(0.565), 1.0),
        (2, pytest.approx(0.95), 0.5),
    ]
    assert ece == pytest.approx(0.5 * 0.435 + 0.5 * 0.45)


def test_a_head_that_knows_its_chances_is_calibrated_and_a_boasting_one_is_not() -> None:
    rng = np.random.default_rng(0)
    chances = rng.uniform(0.5, 1, 4000)
    right = rng.random(4000) < chances

    def told(p: float) -> dict[str, float]:
        return {"a": p, "b": 1 - p}

    for boast, limit in ((0.0, (0.0, 0.03)), (0.6, (0.1, 0.3))):
        made = [
            {"target": "a", "output": "a" if ok else "b", "probabilities": told(p + boast * (1 - p))}
            for p, ok in zip(chances, right, strict=True)
        ]
        ece, _ = calibration(made)
        assert ece is not None
        assert limit[0] <= ece <= limit[1]


@pytest.mark.parametrize("edge", [0.0, 1.0, 1 / 15, 14 / 15])
def test_a_probability_on_an_edge_lies_in_one_bin(edge: float) -> None:
    ece, bins = calibration([{"target": "a", "output": "a", "probabilities": {"a": edge}}])
    assert sum(one.rows for one in bins) == 1
    assert ece == pytest.approx(1 - edge)


def test_without_probabilities_there_is_no_calibration() -> None:
    assert calibration(lines(["a"], ["a"])) == (None, ())
    assert calibration([]) == (None, ())


def test_a_comparison_of_classes_is_one_plain_document() -> None:
    targets, before = drawn(0, right=0.2)
    found = compare(lines(targets, before), lines(targets, targets), metrics=METRICS, hypothesis=Hypothesis())
    document = found.to_json()
    assert json.loads(json.dumps(document, allow_nan=False, default=list)) == json.loads(json.dumps(document))
    assert document["improvement"]["verdict"] == "shown"
    assert document["baseline"]["macro_f1"] == pytest.approx(document["classes"]["baseline"]["macro"]["f1"])
    assert document["control"]["macro_f1"] == 1.0
    assert "approximate randomisation" in document["improvement"]["test"]
    assert set(document["classes"]["rows"]) == set(targets)
    assert len(document["rows"]["fixed"]) == document["metrics"]["macro_f1"]["fixed"]
    assert document["clean"] is None


def test_tasks_without_classes_have_none_in_the_document() -> None:
    plain = lines(["a", "b"] * 10, ["a", "b"] * 10)
    keep: tuple[Keep, ...] = ()
    registered = Hypothesis(Improve("accuracy"), keep)
    found = compare(plain, plain, metrics={"accuracy": "binary"}, hypothesis=registered)
    assert found.to_json()["classes"] is None


def test_variants_seeds_and_categories_work_with_a_corpus_metric() -> None:
    targets, before = drawn(1, right=0.3)
    better = [t if k % 4 else b for k, (t, b) in enumerate(zip(targets, before, strict=True))]
    seeds = {n: lines(targets, [t if k % (4 + n) else b for k, (t, b) in enumerate(zip(targets, before, strict=True))])
             for n in range(5)}  # fmt: skip
    found = compare(
        lines(targets, before),
        lines(targets, better),
        metrics=METRICS,
        hypothesis=Hypothesis(),
        variants={"same": lines(targets, better)},
        seeds=seeds,
    )
    assert found.seeds is not None
    assert found.seeds.rose == 5
    assert found.seeds.both_low is not None
    assert found.seeds.both_high is not None
    assert found.seeds.both_low < found.seeds.mean < found.seeds.both_high
    assert not found.variants["same"].better_than_control
    categorised = [{**line, "category": "ab"[k % 2]} for k, line in enumerate(lines(targets, before))]
    after = [{**line, "category": "ab"[k % 2]} for k, line in enumerate(lines(targets, better))]
    by = compare(categorised, after, metrics=METRICS, hypothesis=Hypothesis()).categories
    assert set(by) == {"a", "b"}
    assert by["a"].n + by["b"].n == len(targets)


def test_the_clean_subset_leaves_out_rows_with_copies_in_training() -> None:
    targets = ["a", "b"] * 40
    before, after = ["a"] * 80, [t if k < 40 else "a" for k, t in enumerate(targets)]
    unclean = [f"r{k}" for k in range(40)]
    found = compare(
        lines(targets, before), lines(targets, after), metrics=METRICS, hypothesis=Hypothesis(), unclean=[*unclean, "x"]
    )
    assert found.improvement.verdict == "shown"
    assert found.clean is not None
    assert found.clean.n == 40
    assert found.clean.left_out == tuple(sorted(unclean))
    assert found.clean.metrics["accuracy"].difference == 0
    # All that was gained was gained on rows that training had seen.
    assert found.clean.verdict != "shown"


def test_where_every_row_has_a_copy_nothing_is_left_to_say() -> None:
    targets = ["a", "b"] * 10
    both = lines(targets, targets)
    found = compare(both, both, metrics=METRICS, hypothesis=Hypothesis(), unclean=[line["row"] for line in both])
    assert found.clean is not None
    assert (found.clean.n, found.clean.metrics, found.clean.verdict) == (0, {}, None)


def test_lines_without_targets_cannot_have_a_corpus_metric() -> None:
    bare = [{**line, "target": None} for line in lines(["a"], ["a"])]
    with pytest.raises(DataError) as error:
        compare(bare, bare, metrics=METRICS, hypothesis=Hypothesis())
    assert "target and output for macro_f1" in str(error.value)


def test_another_target_for_the_same_row_is_named() -> None:
    with pytest.raises(DataError) as error:
        compare(lines(["a"], ["a"]), lines(["b"], ["b"]), metrics=METRICS, hypothesis=Hypothesis())
    assert "other targets for 1 row (r0)" in str(error.value)


def test_the_same_classes_with_other_probabilities_are_not_the_same_outputs() -> None:
    targets = ["a", "b"] * 10
    sides = [
        lines(targets, targets, [{"a": p, "b": 1 - p} if t == "a" else {"a": 1 - p, "b": p} for t in targets])
        for p in (0.6, 0.9)
    ]
    found = compare(*sides, metrics=METRICS, hypothesis=Hypothesis())
    assert found.same_outputs == 0
    assert "no effect" not in found.conclusion


def test_a_written_class_is_judged_as_its_task_read_it() -> None:
    targets = ["a", "b"] * 20
    before = [{**line, "output": "I cannot say", "answer": ""} for line in lines(targets, targets)]
    after = [{**line, "output": f"**{line['target'].upper()}**.", "answer": line["target"]}
             for line in lines(targets, targets)]  # fmt: skip
    found = compare(before, after, metrics={"macro_f1": "corpus"}, hypothesis=Hypothesis(keep=()))
    assert (found.baseline["macro_f1"], found.control["macro_f1"]) == (0.0, 1.0)
    assert found.classes is not None
    assert found.classes.baseline.no_class == (20, 20)
    assert found.classes.control.no_class == (0, 0)
    assert len(found.rows["fixed"]) == 40
