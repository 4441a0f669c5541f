"""Every rule is complete, has a code of its own in the right letter, and can be explained."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from testigo.campaign import json_schema
from testigo.errors import CampaignError, TestigoError
from testigo.gates import all_rules, explain, gate_rules, rule_pages
from testigo.rules import Rule, collect
from testigo.watch import all_rules as watch_rules

RULES = all_rules()

LETTERS = {
    "SplitEvidence": "D",
    "DuplicateEvidence": "D",
    "DataEvidence": "DE",
    "BalanceEvidence": "D",
    "ClassesEvidence": "F",
    "ForwardEvidence": "F",
    "BackwardEvidence": "B",
    "UpdateEvidence": "U",
    "OverfitEvidence": "U",
    "ValidationEvidence": "V",
    "HypothesisEvidence": "V",
    "ExportEvidence": "X",
    "RepeatedUpdate": "R",
    "ResumeEvidence": "R",
    "ProcessesEvidence": "U",
    "MemoryEvidence": "M",
    "TrainerEvidence": "DEFBUVX",
    "CheckpointEvidence": "R",
    "Curve": "TM",
    "Outputs": "O",
    "Guarded": "O",
    "Copies": "O",
    "Recall": "O",
    "Retention": "O",
    "Origin": "T",
    "Delivery": "M",
}

USER_RULE = '''
from testigo.rules import found, passed, rule
from testigo.watch import Curve

@rule("{code}", "my-own", "warn", phase="training")
def mine(curve: Curve, most: float = 1.0):
    """The loss is small.

    Why it matters: it does.

    What to do: lower it.

    Source: mine.
    """
    return found("high") if curve.losses.max() > most else passed("low")
'''


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_rule_is_complete(rule: Rule) -> None:
    assert re.fullmatch(r"[A-Z]\d{3}", rule.code)
    assert rule.code[0] in LETTERS[rule.evidence.__name__]
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", rule.name)
    assert rule.severity in ("stop", "warn", "note")
    assert rule.summary.endswith(".")
    for part in (rule.why, rule.remedy, rule.source):
        assert len(part) > 10
        assert part.endswith(".")
    assert all(isinstance(value, int | float) for value in rule.limits.values())


def test_codes_and_functions_are_unique_and_premises_exist() -> None:
    codes = [rule.code for rule in RULES]

    assert len(codes) == len(set(codes))
    assert codes == sorted(codes)
    assert {code for rule in RULES for code in rule.requires} <= set(codes)
    assert len({rule.function.__qualname__ for rule in RULES}) == len(RULES)


def test_gates_and_watch_together_are_all_rules() -> None:
    assert {rule.code for rule in gate_rules()} | {rule.code for rule in watch_rules()} == {r.code for r in RULES}
    assert not {rule.code for rule in gate_rules()} & {rule.code for rule in watch_rules()}


def test_settings_that_remedies_name_exist_in_the_campaign() -> None:
    """Remedies speak in the campaign's own settings, so each dotted name must be one."""
    known = set(re.findall(r'"([a-z_]+)":', json.dumps(json_schema())))
    sections = ("data", "task", "model", "encoding", "training", "evaluation", "machine")
    for rule in RULES:
        for name in re.findall(rf"`((?:{'|'.join(sections)})\.[a-z_.]+)", rule.remedy):
            assert set(name.rstrip(".").split(".")) <= known, (rule.code, name)


def test_explain_finds_a_rule_whatever_the_case() -> None:
    assert explain("e107").name == "turn-end-not-learned"
    assert explain("T104").limits["spreads"] == 6


def test_explain_of_an_unknown_code_names_near_ones() -> None:
    with pytest.raises(TestigoError, match="did you mean") as refused:
        explain("E177")
    assert refused.value.exit_code == 2


def test_a_rule_of_the_users_file_is_among_all_and_is_explained(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(USER_RULE.format(code="Z901"))

    assert "Z901" in {rule.code for rule in all_rules((file,))}
    assert explain("Z901", (file,)).why == "it does."


def test_a_users_rule_with_a_code_of_ours_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(USER_RULE.format(code="T104"))

    with pytest.raises(TestigoError, match="T104"):
        all_rules((file,))


def test_a_missing_users_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CampaignError):
        all_rules((tmp_path / "none.py",))


def test_there_is_a_page_for_each_rule_and_none_besides() -> None:
    root = Path(__file__).resolve().parents[2] / "docs" / "rules"
    pages = rule_pages()

    assert set(pages) == {"index.md", *(f"{rule.code}.md" for rule in collect("testigo.gates", "testigo.watch"))}
    assert {path.name for path in root.iterdir()} == set(pages)
    assert all(f"({name})" in pages["index.md"] for name in pages if name != "index.md")
    for name, text in pages.items():
        assert (root / name).read_text(encoding="utf-8") == text, f"run make docs: {name} is out of date"
