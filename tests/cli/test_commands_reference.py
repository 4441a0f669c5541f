"""Every command and each of its options stand in the reference."""

from __future__ import annotations

from pathlib import Path

import typer

from testigo.cli import app
from testigo.cli.reference import commands_reference

PAGE = Path(__file__).resolve().parents[2] / "docs" / "commands.md"


def test_the_page_about_the_commands_is_fresh() -> None:
    assert PAGE.read_text(encoding="utf-8") == commands_reference(), "run `make docs`"


def test_every_command_and_option_stands_in_it() -> None:
    page = commands_reference()
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        inside = getattr(command, "commands", {"": command})
        for last, own in inside.items():
            title = f"## `testigo {name}{' ' + last if last else ''}`"
            assert title in page
            section = page.split(title)[1].split("\n## ")[0]
            for parameter in own.params:
                if parameter.name != "help":
                    assert parameter.help in section
