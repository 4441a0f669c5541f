"""Classes in the report and on the card: table, confusion, calibration, imbalance, and rows without copies."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from altair import Chart, LayerChart

from testigo.dossier import read_record
from testigo.dossier.card import front_matter, model_card
from testigo.dossier.class_pictures import Reliability, confusion, reliability
from testigo.dossier.classes import classes_in, clean_in
from testigo.dossier.comparison_facts import recomputed
from testigo.dossier.language import LANGUAGES
from testigo.dossier.record import Record
from testigo.dossier.report import html
from testigo.dossier.run_facts import mean_scores
from testigo.judgement import compare

NAMES = ["billing", "<b>login</b>", "returns & co", "security"]
METRICS = {"accuracy": "binary", "macro_f1": "corpus"}
REGISTERED = SimpleNamespace(improve=SimpleNamespace(metric="macro_f1", by=0.1), keep=(), alpha=0.05)


def lines(seed: int, right: float, sure: float | None) -> list[dict[str, Any]]:
    """Prediction lines of 120 tickets; `sure` is the probability of the class that is given."""
    draw = random.Random(seed)
    of_rows = random.Random(0)
    made = []
    for k in range(120):
        target = of_rows.choices(NAMES, [60, 25, 12, 3])[0]
        output = target if draw.random() < right else draw.choice(NAMES)
        probabilities = {name: sure if name == output else (1 - sure) / 3 for name in NAMES} if sure else None
        made.append({"row": f"r{k}", "group": f"g{k // 2}", "category": "", "output": output, "target": target,
                     "scores": {"accuracy": float(output == target)}, "probabilities": probabilities})  # fmt: skip
    return made


@pytest.fixture
def record(told: Any) -> Record:
    """The record of a whole campaign, with a comparison of classes in place of its own."""
    whole = read_record(told.workspace.dossier)
    assert whole.comparison is not None
    found = compare(
        lines(1, 0.1, 0.4), lines(2, 0.8, 0.9), metrics=METRICS, hypothesis=REGISTERED, unclean=["r1", "r2"]
    )
    return replace(
        whole,
        plan=replace(whole.plan, task="classification", metrics=METRICS),
        hypothesis=replace(whole.hypothesis, metric="macro_f1", guards=()),
        comparison=replace(whole.comparison, statistics=found.to_json()),
        on_validation=None,
    )


def in_language(record: Record, language: str) -> Record:
    return replace(record, plan=replace(record.plan, language=language))


def test_every_class_has_its_line_and_means_come_last(record: Record) -> None:
    told = classes_in(record.comparison, drawn=False)
    assert told is not None
    assert [row.name for row in told.rows] == sorted(NAMES)
    assert [row.n_rows for row in told.means] == [None, None]
    assert sum(row.n_rows or 0 for row in told.rows) == 120
    assert told.majority == "billing"
    assert 0.4 < told.majority_share < 0.7
    assert told.imbalance > 4
    assert told.ece[0] is not None
    assert told.ece[1] is not None
    assert told.confused[0].n_rows >= told.confused[-1].n_rows


def test_the_page_shows_table_confusion_calibration_and_imbalance(record: Record) -> None:
    page = html(record)
    for words in (
        "4 classes. The most frequent, billing, has",
        "always answering it would be right that often",
        "times the rows of the rarest",
        "Calibration error (ECE):",
        "Who is taken for whom, after training",
        "How far probabilities can be believed",
        "Most frequent confusions: ",
        "mean over classes (macro)",
        "Rows without copies in training",
        "2 evaluated rows have a copy",
        "approximate randomisation of group outputs",
    ):
        assert words in page, words
    assert "<b>login</b>" not in page
    assert "&lt;b&gt;login&lt;/b&gt;" in page


def test_both_pictures_say_in_words_what_they_show_and_have_their_table(record: Record) -> None:
    page = html(record)
    labels = re.findall(r'<svg [^>]*role="img"[^>]*aria-label="([^"]+)"', page)
    assert sum(label.startswith("Confusion after training: ") for label in labels) == 2, "wide and narrow"
    assert sum("calibration error" in label for label in labels) == 2
    assert "1. &lt;b&gt;login&lt;/b&gt;" in page


def test_a_runs_scores_hold_what_all_rows_have_together() -> None:
    scores = mean_scores(lines(2, 0.8, None), METRICS)
    assert set(scores) == {"accuracy", "macro_f1"}
    assert scores["macro_f1"] < scores["accuracy"], "the rare class is learned least"
    without = [{key: value for key, value in line.items() if key != "target"} for line in lines(2, 0.8, None)]
    assert set(mean_scores(without, METRICS)) == {"accuracy"}


def test_the_statistics_are_found_again_from_the_rows(record: Record) -> None:
    assert record.comparison is not None
    read = {record.comparison.baseline_file: lines(1, 0.1, 0.4), record.comparison.tuned_file: lines(2, 0.8, 0.9)}
    alone = replace(record.comparison, variant_files={}, seed_files={})
    assert recomputed(alone, lambda file: read[file], record.plan, record.hypothesis) == []
    read[record.comparison.tuned_file][5]["output"] = "security"
    told = recomputed(alone, lambda file: read[file], record.plan, record.hypothesis)
    assert any(line.startswith("classes.control.") for line in told)


def test_other_tasks_have_no_such_section(told: Any) -> None:
    plain = read_record(told.workspace.dossier)
    assert classes_in(plain.comparison) is None
    assert clean_in(None) is None
    assert "Who is taken for whom" not in html(plain)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_section_speaks_the_language_of_the_campaign(record: Record, language: str) -> None:
    page, card = html(in_language(record, language)), model_card(in_language(record, language))
    assert ("Who is taken for whom" in page) == (language == "en")
    assert ("most frequent class" in card) == (language == "en")
    assert "(macro)" in page


def test_an_improvement_on_rows_that_training_had_seen_is_a_grave_limit(record: Record) -> None:
    assert record.comparison is not None
    seen = [f"r{k}" for k in range(120)]
    found = compare(lines(1, 0.1, None), lines(2, 0.8, None), metrics=METRICS, hypothesis=REGISTERED, unclean=seen)
    page = html(replace(record, comparison=replace(record.comparison, statistics=found.to_json())))
    assert "Without the 120 evaluated rows that have copies in training, the improvement is not shown." in page
    assert "nothing can be said without them" in page
    assert "How far probabilities can be believed" not in page, "there are no probabilities"
    none = compare(lines(1, 0.1, None), lines(2, 0.8, None), metrics=METRICS, hypothesis=REGISTERED, unclean=[])
    page = html(replace(record, comparison=replace(record.comparison, statistics=none.to_json())))
    assert "None of the evaluated rows has a copy" in page


def test_the_card_tells_classes_and_what_the_model_does(record: Record) -> None:
    card = model_card(record)
    assert "| billing | " in card
    assert "\\<b\\>login\\</b\\>" in card
    assert "2 evaluated rows have a copy" in card
    assert "AutoModelForSequenceClassification" in card
    assert "CausalLM" not in card
    assert front_matter(record)["pipeline_tag"] == "text-classification"
    written = replace(record, plan=replace(record.plan, settings={**record.plan.settings, "task": {"answer": "text"}}))
    assert front_matter(written)["pipeline_tag"] == "text-generation"
    images = replace(record, plan=replace(record.plan, task="image-classification"))
    assert "AutoImageProcessor" in model_card(images)


@pytest.mark.parametrize("n", [2, 5, 30])
@pytest.mark.parametrize("narrow", [False, True])
def test_the_specifications_are_valid_vega_lite(n: int, narrow: bool) -> None:
    names = [f"class '{k}' \\ with a long name" for k in range(n)]
    specification = confusion(names, [[k + m for m in range(n)] for k in range(n)], narrow=narrow)
    LayerChart.from_dict(specification)
    assert specification["width"] <= (230 if narrow else 460)
    side = Reliability("before", [0.2, 0.9], [0.5, 0.9], [3, 8])
    assert isinstance(LayerChart.from_dict(reliability([side])), LayerChart | Chart)
