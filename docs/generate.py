"""Write the pages and schemas that are made from the code: `make docs`. A test fails when one is out of date."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from testigo.campaign.reference import campaign_reference, json_schema_text
from testigo.cli.reference import commands_reference
from testigo.dossier.twin import schema_text
from testigo.gates import rule_pages

ROOT = Path(__file__).resolve().parent.parent


def silent_errors() -> str:
    """The page of the planted errors, from their records beside the tests."""
    for folder in ("tests/support", "tests/campaigns"):
        if str(ROOT / folder) not in sys.path:
            sys.path.append(str(ROOT / folder))
    from silent_errors.page import page

    return page()


PAGES: list[tuple[str, Callable[[], str]]] = [
    ("docs/campaign-file.md", campaign_reference),
    ("docs/commands.md", commands_reference),
    ("src/testigo/campaign/campaign.schema.json", json_schema_text),
    ("src/testigo/dossier/dossier.schema.json", schema_text),
    ("docs/dossier.schema.json", schema_text),
    ("docs/silent-errors.md", silent_errors),
    *((f"docs/rules/{name}", partial(str, text)) for name, text in rule_pages().items()),
]

if __name__ == "__main__":
    for name, write in PAGES:
        path = ROOT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(write(), encoding="utf-8")
        print(name)
