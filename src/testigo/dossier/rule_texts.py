"""What rules say, in the reader's language: names, summaries and remedies, from catalogues of their own.

A rule is written in English, in its docstring; the catalogues `locale/LANGUAGE/LC_MESSAGES/rules.po` are keyed by that
text, so that a rule whose words changed is no longer found and is told in English until somebody translates it again.
What a rule *observed* is made of measured values and stays in English.

``python -m testigo.dossier.rule_texts`` brings the catalogues up to date with the rules.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from types import ModuleType

from testigo.dossier.language import LANGUAGES, RULES
from testigo.rules import Rule, collect


def rules() -> tuple[Rule, ...]:
    """Every rule of Testigo, by code."""
    found = {rule.code: rule for rule in collect("testigo.gates", "testigo.watch")}
    return tuple(found[code] for code in sorted(found))


def texts() -> dict[str, str]:
    """Each text that a report prints of a rule, with the place that it comes from, such as `T104 remedy`."""
    found: dict[str, str] = {}
    for rule in rules():
        for part, text in (("name", named(rule.name)), ("summary", rule.summary), ("remedy", rule.remedy)):
            found.setdefault(text, f"{rule.code} {part}")
        for text in _other_remedies(sys.modules[rule.function.__module__]):
            found.setdefault(text, f"{rule.code} remedy")
    return found


def named(name: str) -> str:
    """A rule's name as a report prints it."""
    return name.replace("-", " ")


def _other_remedies(module: ModuleType) -> Iterator[str]:
    """Remedies that a rule gives where it tested the cause: constants that its module hands over as `remedy`."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        is_argument = isinstance(node, ast.keyword) and node.arg == "remedy"
        is_name = isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == "remedy" for target in node.targets
        )
        if (is_argument or is_name) and isinstance(node, ast.keyword | ast.Assign):
            names |= {inner.id for inner in ast.walk(node.value) if isinstance(inner, ast.Name)}
    for name in sorted(names):
        value = getattr(module, name, None)
        if isinstance(value, str) and value:
            yield value


def update_catalogues() -> None:
    """Write each catalogue again: texts of today in the order of codes, with the translations that still fit."""
    from babel.messages.catalog import Catalog
    from babel.messages.pofile import read_po, write_po

    for language in LANGUAGES:
        if language == "en":
            continue
        path = Path(str(files("testigo.dossier"))) / "locale" / language / "LC_MESSAGES" / f"{RULES}.po"
        old = read_po(path.open("rb"), locale=language) if path.is_file() else Catalog(locale=language)
        new = Catalog(locale=language, project="Testigo", charset="utf-8", fuzzy=False)
        new.creation_date = new.revision_date = old.creation_date
        for text, place in texts().items():
            known = old.get(text)
            new.add(text, known.string if known else "", auto_comments=[place])
        with path.open("wb") as file:
            write_po(file, new, width=10**6, omit_header=False)


if __name__ == "__main__":
    update_catalogues()
