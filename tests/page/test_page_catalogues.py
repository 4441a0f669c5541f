"""The page's own catalogues: every text in every language, with the same places for values."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from babel.messages.extract import extract_from_dir
from babel.messages.pofile import read_po

from testigo.dossier.language import LANGUAGES

PAGE = Path(str(files("testigo.page")))
KEYWORDS: dict[str, Any] = {"_": None, "later": None, "counted": (1, 2), "ngettext": (1, 2)}
METHODS = [("**.py", "python"), ("templates/**.html", "jinja2")]
OTHERS = [language for language in LANGUAGES if language != "en"]


@pytest.mark.parametrize("language", OTHERS)
def test_every_text_of_the_page_is_translated(language: str) -> None:
    extracted = extract_from_dir(str(PAGE), METHODS, keywords=KEYWORDS)
    wanted = {message if isinstance(message, str) else tuple(message) for _file, _line, message, *_rest in extracted}
    with (PAGE / "locale" / language / "LC_MESSAGES" / "page.po").open("rb") as file:
        catalogue = read_po(file, locale=language)
    found = {m.id if isinstance(m.id, str) else tuple(m.id): m for m in catalogue if m.id}
    assert set(found) == wanted, "run `make messages` and translate what is new"
    for key, message in found.items():
        forms = (message.string,) if isinstance(message.string, str) else message.string
        assert not message.fuzzy
        assert all(forms), key
        for text in forms:
            english = key if isinstance(key, str) else key[-1]
            for places in (r"\{\w+\}", r"%\(\w+\)s"):
                assert set(re.findall(places, text)) <= set(re.findall(places, english)), text
                assert isinstance(key, tuple) or set(re.findall(places, text)) == set(re.findall(places, english)), text
