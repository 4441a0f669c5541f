"""The generated pages and schemas say what the code says."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import jsonschema
import pytest
from ruamel.yaml import YAML

from testigo.campaign import campaign_reference, json_schema, new_campaign
from testigo.campaign.campaign import Campaign
from testigo.campaign.reference import SCHEMA_FILE, json_schema_text
from testigo.campaign.wording import keys_of, section_of

ROOT = Path(__file__).resolve().parents[2]


def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", [name for name, _ in generate().PAGES])
def test_a_generated_page_is_fresh(name: str) -> None:
    write = dict(generate().PAGES)[name]
    assert (ROOT / name).read_text(encoding="utf-8") == write(), "run `make docs`"


def test_faults_that_the_comparison_did_not_have_are_named_on_its_page() -> None:
    generate().silent_errors()  # puts the records of the planted errors on the path
    from silent_errors import CASES

    text = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")
    own = [case for case in CASES if case.loop != "own"]
    lacking = [case for case in own if f"| {case.fault} | {case.loop} |" not in text]
    assert f"| tool | of {len(own) - len(lacking)} faults found |" in text
    assert [case.fault for case in lacking if f"- {case.fault} ({case.loop})" not in text] == []


def test_every_case_that_a_test_cites_is_told() -> None:
    told = set(re.findall(r"\*\*(C\d\d)\*\*", (ROOT / "docs" / "cases.md").read_text(encoding="utf-8")))
    cited = {
        code for path in (ROOT / "tests").rglob("*.py") for code in re.findall(r"\bC\d\d\b", path.read_text("utf-8"))
    }
    assert len(told) == 56
    assert cited <= told


def models(model: type = Campaign) -> list[type]:
    inside = [section_of(field.annotation) for field in model.model_fields.values()]  # type: ignore[attr-defined]
    return [model, *(found for part in inside if part is not None for found in models(part))]


@pytest.mark.parametrize("model", models(), ids=lambda model: model.__name__)
def test_every_field_has_words_and_a_line_in_the_reference(model: type[Campaign]) -> None:
    page = campaign_reference()
    for key, field in zip(keys_of(model), model.model_fields.values(), strict=True):
        words = (field.description or "").replace("\n", " ").replace("|", "\\|")
        assert words, f"{model.__name__}.{key} needs a docstring under it"
        if model.__name__ != "Rules":
            assert any(line.startswith(f"| `{key}` |") and words in line for line in page.splitlines())


def test_the_committed_schema_is_fresh_and_takes_the_starter(tmp_path: Path) -> None:
    assert SCHEMA_FILE.read_text(encoding="utf-8") == json_schema_text()
    schema = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    assert schema == json.loads(json.dumps(json_schema()))
    jsonschema.Draft202012Validator.check_schema(schema)
    plain = YAML(typ="safe").load(new_campaign(tmp_path).read_text())
    validator = jsonschema.Draft202012Validator(schema)
    validator.validate(plain)
    validator.validate({**plain, "rules": ["mine.py", {"T104": {"spreads": 6}}]})
    validator.validate({**plain, "rules": {"T104": {"spreads": 6}}})
    for wrong in ({**plain, "sed": 1}, {**plain, "rules": 3}, {**plain, "training": {**plain["training"], "clip": -1}}):
        assert list(validator.iter_errors(wrong))
