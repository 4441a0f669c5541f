"""The catalogues: every text of the dossier in every language, with the same places for values."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from importlib.resources import files
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any, get_args

import pytest
from babel.messages.catalog import Catalog, Message
from babel.messages.extract import extract_from_dir
from babel.messages.pofile import read_po

from testigo.campaign import Campaign
from testigo.dossier import read_record, retelling
from testigo.dossier.language import LANGUAGES, _, counted, speaking, spoken
from testigo.dossier.report import html
from testigo.judgement import compare_paired
from testigo.judgement.decision import GuardVerdict, ImprovementVerdict
from testigo.ledger import STATES
from testigo.rules import Severity

DOSSIER = Path(str(files("testigo.dossier")))
KEYWORDS: dict[str, Any] = {"_": None, "later": None, "counted": (1, 2), "ngettext": (1, 2)}
METHODS = [("**.py", "python"), ("templates/**.html", "jinja2"), ("templates/**.md", "jinja2")]
OTHERS = tuple(language for language in LANGUAGES if language != "en")


@cache
def messages() -> dict[str | tuple[str, ...], str]:
    """Every message of the sources and templates, with the file that it comes from."""
    found = extract_from_dir(str(DOSSIER), METHODS, keywords=KEYWORDS)
    return {(message if isinstance(message, str) else tuple(message)): file for file, _line, message, *_rest in found}


@cache
def catalogue(language: str) -> Catalog:
    written = (DOSSIER / "locale" / language / "LC_MESSAGES" / "dossier.po").read_bytes()
    return read_po(BytesIO(written), locale=language)


def translations(message: Message) -> tuple[str, ...]:
    return (message.string,) if isinstance(message.string, str) else tuple(message.string)


def entries(language: str) -> Iterator[tuple[Message, str, str]]:
    """Each translation with its message and the English text of the same form."""
    for message in catalogue(language):
        if message.id:
            forms = (message.id,) if isinstance(message.id, str) else message.id
            for i, text in enumerate(translations(message)):
                yield message, forms[min(i, len(forms) - 1)], text


def test_the_languages_of_a_campaign_are_the_languages_of_the_dossier() -> None:
    assert get_args(Campaign.model_fields["language"].annotation) == LANGUAGES
    assert {path.name for path in (DOSSIER / "locale").iterdir()} == set(OTHERS)


@pytest.mark.parametrize("language", OTHERS)
def test_every_message_is_translated(language: str) -> None:
    found = {
        message.id if isinstance(message.id, str) else tuple(message.id): message for message in catalogue(language)
    }
    del found[""]
    assert set(messages()) - set(found) == set(), "run `make messages` and translate them"
    assert set(found) - set(messages()) == set(), "run `make messages`"
    assert [message.id for message in found.values() if message.fuzzy] == []
    assert [message.id for message in found.values() if not all(translations(message))] == []
    for message in found.values():
        assert len(translations(message)) == (1 if isinstance(message.id, str) else catalogue(language).num_plurals)


@pytest.mark.parametrize("language", OTHERS)
def test_a_translation_has_the_places_of_its_message(language: str) -> None:
    for message, english, text in entries(language):
        assert set(re.findall(r"\{\w+\}", text)) == set(re.findall(r"\{\w+\}", english)), text
        assert sorted(re.findall(r"%\(\w+\)s", text)) == sorted(re.findall(r"%\(\w+\)s", english)), text
        key = message.id if isinstance(message.id, str) else tuple(message.id)
        if "templates" in messages()[key]:
            text % defaultdict(str)  # a lone % would break the page
        elif "{" in english:
            text.format_map(defaultdict(str))
        assert text[:1].isspace() == english[:1].isspace() or english in (": ", "; "), text
        assert text[-1:].isspace() == english[-1:].isspace(), text
        assert not set("<>&") & (set(text) - set(english)), text  # a translation is put into the page as it is


def test_french_has_its_spaces_and_apostrophes() -> None:
    for _message, _english, text in entries("fr"):
        assert not re.search(r"(?<![\u202f])[;?!]|(?<![\u00a0\u202f{]):|(?<=\w)'(?=\w)| %(?!\()", text), text


@pytest.mark.parametrize("language", ["es", "pt"])
def test_no_space_stands_before_a_colon(language: str) -> None:
    for _message, _english, text in entries(language):
        assert not re.search(r"\s[:;,?!]", text), text


def test_numbers_of_things_have_the_form_of_the_language() -> None:
    said = {}
    for language in LANGUAGES:
        with speaking(language):
            said[language] = [counted("{value} points", "{value} points", n, value=n) for n in (0, 1, 2)]
    assert said == {
        "en": ["0 points", "1 points", "2 points"],
        "es": ["0 puntos", "1 puntos", "2 puntos"],
        "pt": ["0 ponto", "1 ponto", "2 pontos"],
        "fr": ["0 point", "1 point", "2 points"],
    }


def test_a_language_is_spoken_only_inside_of_its_block() -> None:
    with speaking("fr"):
        assert _("Rows") == "Lignes"
        with speaking("eo"):
            assert _("Rows") == "Rows"
        assert spoken() == "fr"
    with pytest.raises(ZeroDivisionError), speaking("fr"):
        raise ZeroDivisionError
    assert (spoken(), _("Rows")) == ("en", "Rows")


def pilot_says() -> Iterator[str]:
    """The phases of the pilot and their inputs, read from its source, each varying part as 7."""
    for path in sorted(Path(str(files("testigo.pilot"))).glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "measure":
                for place, argument in enumerate(node.args):
                    if isinstance(argument, ast.Constant):
                        yield str(argument.value)
                    elif place and isinstance(argument, ast.JoinedStr):
                        yield "".join(str(p.value) if isinstance(p, ast.Constant) else "7" for p in argument.values)


def judgement_says() -> Iterator[str]:
    """The names of tests and intervals, as the statistics write them."""
    many = [0.1 * (i % 7) for i in range(260)]
    for before, after, groups, kind in (
        ([0, 0, 1], [1, 0, 1], None, "binary"),
        ([0, 0, 1, 0], [1, 0, 1, 1], [1, 1, 2, 3], "binary"),
        ([0.0] * 40, many[:40], None, "bounded"),
        ([0.0] * 40, many[:40], [i // 2 for i in range(40)], "bounded"),
        ([0.0] * 260, many, None, "bounded"),
        ([0.0] * 520, many * 2, [i // 2 for i in range(520)], "bounded"),
        ([0.5] * 5, [0.5] * 5, None, "bounded"),
        ([0.5] * 6, [0.5] * 6, [0, 0, 1, 1, 2, 2], "bounded"),
    ):
        paired = compare_paired(before, after, kind=kind, groups=groups)
        yield from (paired.test, paired.interval)


def test_what_other_rooms_write_is_told_in_every_language() -> None:
    texts = ["update-1", "update-2", *pilot_says(), *judgement_says(), *STATES]
    texts += [*get_args(ImprovementVerdict), *get_args(GuardVerdict), *get_args(Severity)]
    texts += ["passed", "failed", "warned", "waived", "could not be checked", "not reached", "rose", "fell"]
    texts += [
        "asked to stop",
        "40 updates",
        "the gradient norm is inf at update 3",
        "the validation loss is nan at update 7",
    ]
    texts += ["validation_loss has not improved for 5 validations; the best was 0.1234 at update 20"]
    texts += ["update 3: CUDA out of memory", "wrong schema (it was completed)"]
    assert len(set(texts)) > 60
    for language in OTHERS:
        with speaking(language):
            same = {text for text in texts if retelling.told(text) == text}
        # words that are the same in both languages
        assert same <= {"note", "validation", "gradients"}, language


def test_what_the_record_says_in_parts_is_told_part_by_part() -> None:
    with speaking("fr"):
        assert retelling.told_rule(
            "groups of customer; near-duplicates from 0.8 on joined; test 0.15, train 0.7, validation a file; seed 7"
        ) == (
            "groupes de customer\u202f; quasi-doublons réunis à partir de 0,8\u202f; "
            "test 0,15, entraînement 0,7, validation un fichier\u202f; graine 7"
        )
        known = "the baseline's result, the pilot, 5 finished runs, the sealed test, opened 2 times"
        assert retelling.told_known(known) == (
            "le résultat de la référence, le pilote, 5 exécutions terminées, le jeu de test scellé, ouvert 2 fois"
        )
    with speaking("es"):
        assert retelling.told_change("training.clip: unset → 1.0") == "training.clip: sin valor → 1.0"
        assert retelling.told_elision("a […12,900 characters left out…] b") == "a […12\u202f900 caracteres omitidos…] b"
        assert retelling.told_place("o7 at orders.jsonl:9") == "o7 en orders.jsonl:9"
        assert retelling.told_why("its premise B201 does not hold", True) == "su premisa B201 no se cumple"
        assert str(retelling.shown("a <new> cause")) == '<span lang="en">a &lt;new&gt; cause</span>'


def test_every_word_that_is_told_is_english_in_the_record() -> None:
    for text in chain(retelling.WORDS, retelling.PATTERNS):
        assert text in messages()
        assert retelling.told(text) == text


def spoken_text(page: str) -> str:
    """What the page says in its own language: without style, outputs, code, and what is marked as English."""
    for part in (
        r"<style>.*?</style>",
        r"<pre.*?</pre>",
        r'<div class="verbatim">.*?</div>',
        r'<span lang="en">.*?</span>',
        r"<code>.*?</code>",
    ):
        page = re.sub(part, " ", page, flags=re.DOTALL)
    labels = " ".join(re.findall(r'(?:aria-label|data-label)="([^"]*)"', page))
    return " ".join((re.sub(r"<[^>]*>", " ", page) + labels).split())


@pytest.mark.parametrize("language", OTHERS)
def test_no_english_is_left_but_what_is_marked(told: Any, new_story: Callable[..., Any], language: str) -> None:
    for folder in (told.workspace.dossier, new_story().write()):
        record = read_record(folder)
        said = spoken_text(html(replace(record, plan=replace(record.plan, language=language))))
        for _message, english, text in entries(language):
            pieces = re.split(r"\{\w+\}|%\(\w+\)s", english)
            assert not [piece for piece in pieces if len(piece) > 11 and piece not in text and piece in said], english
