"""What rules say, in every language: no text missing, none outdated, settings and commands left as they are typed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files
from io import BytesIO
from typing import Any

import pytest
from babel.messages.pofile import read_po

from testigo.dossier import read_record
from testigo.dossier.language import LANGUAGES, from_rules, speaking
from testigo.dossier.report import html
from testigo.dossier.rule_texts import named, rules, texts
from testigo.rules import Finding

OTHERS = tuple(language for language in LANGUAGES if language != "en")
CODE = re.compile(r"`[^`]*`")


def entries(language: str) -> Iterator[tuple[str, str]]:
    """Each English text with its translation."""
    written = files("testigo.dossier") / "locale" / language / "LC_MESSAGES" / "rules.po"
    for message in read_po(BytesIO(written.read_bytes()), locale=language):
        if message.id:
            yield str(message.id), str(message.string)


@pytest.mark.parametrize("language", OTHERS)
def test_every_text_of_every_rule_is_translated_and_none_is_outdated(language: str) -> None:
    known = dict(entries(language))
    missing = {text: place for text, place in texts().items() if not known.get(text)}
    assert missing == {}, "run `make messages` and translate them in rules.po"
    assert set(known) - set(texts()) == set(), "a rule's words changed: run `make messages`"


@pytest.mark.parametrize("language", OTHERS)
def test_settings_commands_and_codes_stay_as_they_are_typed(language: str) -> None:
    for english, told in entries(language):
        assert sorted(set(CODE.findall(told))) == sorted(set(CODE.findall(english))), told
        codes = r"\b[A-Z]\d{3}\b"
        assert set(re.findall(codes, told)) == set(re.findall(codes, english)), told


@pytest.mark.parametrize("language", OTHERS)
def test_a_translation_is_another_text_and_ends_as_the_english_one_does(language: str) -> None:
    same = {english for english, told in entries(language) if english == told}
    assert {text for text in same if " " in text} == set()
    for english, told in entries(language):
        assert told.endswith(".") == english.endswith("."), told
        assert "  " not in told
        assert told == told.strip()


def test_french_has_its_spaces_and_apostrophes() -> None:
    for _english, told in entries("fr"):
        words = CODE.sub("x", told)
        assert not re.search(r"(?<![\u202f])[;?!]|(?<![\u00a0\u202f{]):|(?<=\w)'(?=\w)", words), told


def test_remedies_that_a_rule_gives_for_a_tested_cause_are_among_the_texts() -> None:
    assert sum("tested: the named rows" in text for text in texts()) == 2
    assert "the limit is not what cuts them" in " ".join(texts())


@pytest.mark.parametrize("language", OTHERS)
def test_a_report_tells_findings_in_its_language_and_marks_what_was_observed(told: Any, language: str) -> None:
    record = read_record(told.workspace.dossier)
    assert record.gates is not None
    by_code = {rule.code: rule for rule in rules()}
    rule = by_code["E112"]
    finding = Finding(rule.code, rule.name, rule.severity, rule.phase, "3 rows of 9 are too long", rule.remedy)
    own = replace(finding, code="Z901", name="my-own-rule", remedy="my own words")
    gates = replace(record.gates, findings=(finding, own))
    page = html(replace(record, gates=gates, plan=replace(record.plan, language=language)))
    with speaking(language):
        for text in (named(rule.name), rule.remedy):
            translated = from_rules(text)
            assert translated is not None
            assert translated in page
            assert f'<span lang="en">{text}' not in page
    assert '<span lang="en">3 rows of 9 are too long</span>' in page
    assert '<p class="soft">my own words</p>' in page
