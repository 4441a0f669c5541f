from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from testigo.errors import DataError
from testigo.judgement import Comparison, compare

METRICS = {"exact_match": "binary", "valid_json": "binary", "field_f1": "bounded"}


@dataclass(frozen=True)
class Improve:
    metric: str = "exact_match"
    by: float = 0.10


@dataclass(frozen=True)
class Keep:
    metric: str = "valid_json"
    within: float = 0.05


@dataclass(frozen=True)
class Hypothesis:
    improve: Improve = field(default_factory=Improve)
    keep: tuple[Keep, ...] = (Keep(),)
    alpha: float = 0.05


def lines(exact: list[int], valid: list[int] | None = None, **more: Any) -> list[dict[str, Any]]:
    valid = valid or [1] * len(exact)
    return [
        {
            "row": f"r{i}",
            "category": "ab"[i % 2],
            "group": f"r{i}",
            "prompt_sha256": f"p{i}",
            "output": f"answer {i} {e} {v}",
            "scores": {"exact_match": float(e), "valid_json": float(v), "field_f1": 0.5 + 0.5 * e},
            **more,
        }
        for i, (e, v) in enumerate(zip(exact, valid, strict=True))
    ]


def judged(before: list[int], after: list[int], valid: list[int] | None = None, **more: Any) -> Comparison:
    return compare(lines(before), lines(after, valid), metrics=METRICS, hypothesis=Hypothesis(), **more)


def test_a_clear_improvement_is_shown_with_its_rows_and_its_guards() -> None:
    found = judged([0] * 60 + [1] * 20, [1] * 40 + [0] * 20 + [1] * 18 + [0] * 2)
    assert found.improvement.verdict == "shown"
    assert [guard.verdict for guard in found.guards] == ["kept"]
    assert found.rows["fixed"] == tuple(f"r{i}" for i in range(40))
    assert found.rows["broken"] == ("r78", "r79")
    assert len(found.rows["both_right"]) == 18
    assert len(found.rows["both_wrong"]) == 20
    assert found.conclusion.startswith("Improvement shown: exact_match went from 0.250 to 0.725 (+0.475, 95 % interval")
    assert "valid_json stayed within" in found.conclusion


def test_the_document_has_the_promised_keys_and_is_plain_json() -> None:
    document = judged([0] * 30, [1] * 30, variants={"slow": lines([1] * 30)}).to_json()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert document["baseline"] == {"exact_match": 0.0, "valid_json": 1.0, "field_f1": 0.5}
    assert document["control"]["exact_match"] == 1.0
    assert {"metric", "verdict", "difference", "low", "high", "p_value", "by", "test", "interval", "n"} == set(
        document["improvement"]
    )
    assert {"metric", "verdict", "difference", "low", "high", "within"} <= set(document["guards"][0])
    assert document["categories"]["a"]["n"] == 15
    assert {"verdict", "fixed", "broken", "low", "high"} <= set(document["categories"]["a"]["metrics"]["exact_match"])
    assert document["variants"]["slow"]["exact_match"] == 1.0
    assert document["variants"]["slow"]["improvement"]["verdict"] == "shown"


def test_the_same_lines_give_the_same_document() -> None:
    before, after = [0, 1] * 150, [1, 1, 0] * 100
    assert judged(before, after).to_json() == judged(before, after).to_json()


def test_the_order_of_the_files_does_not_matter() -> None:
    before, after = lines([0, 1] * 20), lines([1, 1, 0, 1] * 10)
    straight = compare(before, after, metrics=METRICS, hypothesis=Hypothesis())
    turned = compare(before, after[::-1], metrics=METRICS, hypothesis=Hypothesis())
    assert straight == turned


def test_an_adapter_without_effect_is_told_as_such() -> None:
    found = judged([0, 1] * 20, [0, 1] * 20)
    assert found.same_outputs == 40
    assert found.improvement.verdict != "shown"
    assert found.conclusion.startswith("The adapter has no effect: all 40 outputs are the base model's own")


def test_a_baseline_that_stays_best_is_told_plainly() -> None:
    worse = judged([1] * 40, [1] * 20 + [0] * 20)
    assert worse.improvement.verdict == "refuted"
    assert worse.conclusion.startswith("The baseline stays best: exact_match went from 1.000 to 0.500")
    level = judged([0, 1] * 300, [1, 0] * 10 + [0, 1] * 290)
    assert level.improvement.verdict == "refuted"
    assert "which excludes an improvement of the registered 0.1" in level.conclusion


def test_no_difference_on_few_rows_is_not_decided_and_says_why() -> None:
    found = judged([0, 1, 0, 1] * 5, [1, 0, 0, 1] * 5)
    assert found.improvement.verdict == "not decided"
    assert "no difference was seen" in found.conclusion
    assert "so few rows" in found.conclusion


def test_a_broken_guard_stands_in_the_sentence_beside_the_improvement() -> None:
    found = judged([0] * 60, [1] * 50 + [0] * 10, valid=[1] * 40 + [0] * 20)
    assert found.improvement.verdict == "shown"
    assert found.guards[0].verdict == "broken"
    assert "but valid_json fell by 0.333, more than the 0.05 allowed" in found.conclusion


def test_a_guard_that_the_rows_cannot_decide_is_named() -> None:
    found = judged([0] * 20, [1] * 20)
    assert found.guards[0].verdict == "undecidable"
    assert "whether valid_json stayed within 0.05 cannot be decided with these rows" in found.conclusion


def test_small_categories_are_not_decided_where_the_whole_is_shown() -> None:
    before, after = lines([0] * 32), lines([1] * 12 + [0] * 20)
    for i, (old, new) in enumerate(zip(before, after, strict=True)):
        old["category"] = new["category"] = "large" if i >= 4 else "small"
    found = compare(before, after, metrics=METRICS, hypothesis=Hypothesis())
    assert found.improvement.verdict == "shown"
    assert found.categories["small"].n == 4
    assert found.categories["small"].metrics["exact_match"].difference == 1.0
    assert found.categories["small"].verdicts["exact_match"] == "not decided"


def test_categories_are_corrected_for_their_number() -> None:
    before, after = lines([0] * 80), lines([0] * 80)
    for i, (old, new) in enumerate(zip(before, after, strict=True)):
        old["category"] = new["category"] = f"c{i % 8}"
        if i % 8 == 0 and i < 48:
            new["scores"] = {**new["scores"], "exact_match": 1.0}  # 6 of 10 rows of one category: p = 0.031 alone
    found = compare(before, after, metrics=METRICS, hypothesis=Hypothesis())
    assert found.categories["c0"].metrics["exact_match"].p_value < 0.05
    assert found.categories["c0"].verdicts["exact_match"] == "not decided"


def test_rows_without_categories_have_no_categories() -> None:
    before, after = lines([0] * 9, category=""), lines([1] * 9, category="")
    assert compare(before, after, metrics=METRICS, hypothesis=Hypothesis()).categories == {}


def test_another_metric_that_rose_or_fell_is_told_in_those_words() -> None:
    found = judged([0] * 80, [1] * 80)
    assert found.categories["a"].verdicts["field_f1"] == "rose"
    assert judged([1] * 80, [0] * 80).categories["a"].verdicts["field_f1"] == "fell"


def test_no_better_variant_keeps_the_control() -> None:
    found = judged([0] * 60, [1] * 40 + [0] * 20, variants={"fast": lines([1] * 41 + [0] * 19)})
    assert not found.variants["fast"].better_than_control
    assert "so the control stays" in found.conclusion


def test_a_better_variant_is_named() -> None:
    found = judged([0] * 60, [1] * 20 + [0] * 40, variants={"fast": lines([1] * 58 + [0] * 2), "slow": lines([0] * 60)})
    assert found.variants["fast"].better_than_control
    assert found.variants["slow"].improvement.verdict == "refuted"
    assert "fast did better than the control" in found.conclusion


def test_variants_are_corrected_for_their_number() -> None:
    one_of_many = {f"v{i}": lines([1] * 6 + [0] * 34) for i in range(9)}  # p = 0.031 each
    found = judged([0] * 40, [0] * 40, variants=one_of_many)
    assert found.variants["v0"].improvement.verdict == "not decided"
    alone = judged([0] * 40, [1] * 6 + [0] * 34)
    assert alone.improvement.verdict == "shown"


def test_one_lucky_seed_does_not_show_an_improvement() -> None:
    lucky, others = lines([1] * 20 + [0] * 20), lines([0] * 40)
    found = judged([0] * 40, [1] * 20 + [0] * 20, seeds={0: lucky, 1: others, 2: others})
    assert found.improvement.verdict == "not decided"
    assert "the seeds together do not" in found.conclusion
    agreed = judged([0] * 40, [1] * 20 + [0] * 20, seeds={0: lucky, 1: lucky, 2: lines([1] * 10 + [0] * 30)})
    assert agreed.improvement.verdict == "shown"
    assert "over 3 seeds +0.417 on average, all 3 rose" in agreed.conclusion


def test_five_seeds_let_seeds_and_rows_vary_together() -> None:
    many = {i: lines([1] * (18 + i) + [0] * (22 - i)) for i in range(5)}
    found = judged([0] * 40, [1] * 18 + [0] * 22, seeds=many).seeds
    assert found is not None
    assert found.both_low is not None
    assert found.both_high is not None
    assert found.both_low < found.mean < found.both_high
    four = judged([0] * 40, [1] * 18 + [0] * 22, seeds={i: many[i] for i in range(4)}).seeds
    assert four is not None
    assert four.both_low is None


def test_rows_that_are_not_the_same_set_are_named_all_at_once() -> None:
    before, after = lines([0] * 6), lines([1] * 6)
    after[2]["row"] = "other"
    after[4] = {**after[3]}
    with pytest.raises(DataError) as error:
        compare(before, after, metrics=METRICS, hypothesis=Hypothesis())
    text = str(error.value)
    assert "1 row (r3) more than once in the control" in text
    assert "2 rows (r2, r4) missing in the control" in text
    assert "1 row (other) missing in the baseline" in text


def test_a_row_that_was_asked_with_another_prompt_is_named() -> None:
    after = lines([1] * 6)
    after[5]["prompt_sha256"] = "changed"
    with pytest.raises(DataError, match=r"other prompts for 1 row \(r5\)"):
        compare(lines([0] * 6), after, metrics=METRICS, hypothesis=Hypothesis())


def test_no_rows_a_missing_score_and_an_unknown_metric_are_errors() -> None:
    with pytest.raises(DataError, match="no row in the baseline"):
        compare([], lines([1]), metrics=METRICS, hypothesis=Hypothesis())
    lacking = lines([1] * 3)
    del lacking[1]["scores"]["field_f1"]
    with pytest.raises(DataError, match=r"none for 1 row \(r1\) in the control"):
        compare(lines([0] * 3), lacking, metrics=METRICS, hypothesis=Hypothesis())
    with pytest.raises(DataError, match="bleu"):
        compare(lines([0]), lines([1]), metrics=METRICS, hypothesis=Hypothesis(Improve("bleu")))
    broken = lines([1] * 3)
    broken[0]["scores"]["exact_match"] = float("nan")
    with pytest.raises(DataError, match="nan"):
        compare(lines([0] * 3), broken, metrics=METRICS, hypothesis=Hypothesis())


def simulated(rng: np.random.Generator, rise: float) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """A campaign of yes-or-no rows in 24 ragged groups that stand and fall together, before and after."""
    group = np.repeat(np.arange(24), rng.integers(1, 8, 24))
    level = 0.4 + 0.15 * rng.normal(size=24)
    moved = level + 0.15 * rng.normal(size=24) + rise  # the tuned model's own luck with each group
    both: list[list[dict[str, Any]]] = []
    for p in (level, moved):
        right = rng.random(len(group)) < p[group]
        both.append(
            [
                {"row": str(i), "group": str(g), "category": "", "output": "", "scores": {"exact_match": float(r)}}
                for i, (g, r) in enumerate(zip(group, right, strict=True))
            ]
        )
    return both[0], both[1]


def test_campaigns_without_effect_show_no_more_than_alpha_and_intervals_cover() -> None:
    rng = np.random.default_rng(11)
    campaigns = 400
    hypothesis = Hypothesis(Improve(by=0.02), keep=(Keep("exact_match", 0.05),))
    found = [
        compare(*simulated(rng, 0.0), metrics={"exact_match": "binary"}, hypothesis=hypothesis, seed=i)
        for i in range(campaigns)
    ]
    error = 3 * (0.05 * 0.95 / campaigns) ** 0.5
    assert np.mean([one.improvement.verdict == "shown" for one in found]) <= 0.05 + error
    covered = np.mean([one.improvement.low <= 0 <= one.improvement.high for one in found])
    assert 0.95 - error <= covered <= 0.95 + error
    assert np.mean([one.improvement.p_value < 0.05 for one in found]) <= 0.05 + error


def test_a_fall_beyond_the_margin_is_kept_no_more_often_than_alpha() -> None:
    rng = np.random.default_rng(12)
    campaigns = 300
    hypothesis = Hypothesis(keep=(Keep("exact_match", 0.05),))
    kept = [
        compare(*simulated(rng, -0.05), metrics={"exact_match": "binary"}, hypothesis=hypothesis, seed=i)
        .guards[0]
        .verdict
        == "kept"
        for i in range(campaigns)
    ]
    assert np.mean(kept) <= 0.05 + 3 * (0.05 * 0.95 / campaigns) ** 0.5


def test_a_real_effect_is_found_in_most_campaigns() -> None:
    rng = np.random.default_rng(13)
    hypothesis = Hypothesis(Improve(by=0.1), keep=())
    shown = [
        compare(
            *simulated(rng, 0.3), metrics={"exact_match": "binary"}, hypothesis=hypothesis, seed=i
        ).improvement.verdict
        == "shown"
        for i in range(50)
    ]
    assert np.mean(shown) > 0.8
