"""What to do, in the settings of a Trainer."""

from __future__ import annotations

import json
import re

from testigo.attach.pilot import _COLLECTED
from testigo.campaign.reference import json_schema_text
from testigo.gates import gate_rules
from testigo.gates.trainer_remedies import for_trainers
from testigo.rules import Finding
from testigo.watch import all_rules as watch_rules
from testigo.watch.curve import Curve


def settings_of_a_campaign() -> set[str]:
    """Every `section.field` of a campaign file."""
    schema = json.loads(json_schema_text())
    sections = {
        name: value["$ref"].rsplit("/", 1)[-1] for name, value in schema["properties"].items() if "$ref" in value
    }
    return {f"{name}.{field}" for name, key in sections.items() for field in schema["$defs"][key]["properties"]}


def test_no_remedy_on_a_trainer_names_the_settings_or_commands_of_a_campaign() -> None:
    settings = settings_of_a_campaign()
    assert {"encoding.maximum_length", "training.learning_rate", "model.adapter"} <= settings
    rules = [rule for rule in (*gate_rules(), *watch_rules()) if issubclass(rule.evidence, (*_COLLECTED, Curve))]
    findings = [Finding(rule.code, rule.name, rule.severity, rule.phase, "", rule.remedy) for rule in rules]
    assert any(set(re.findall(r"\w+\.\w+", one.remedy)) & settings for one in findings)

    told = {one.code: one.remedy for one in for_trainers(findings)}

    assert {
        code: named for code, text in told.items() if (named := set(re.findall(r"\w+\.\w+", text)) & settings)
    } == {}
    assert [code for code, text in told.items() if re.search(r"`testigo (show|check|baseline|run)\b", text)] == []
