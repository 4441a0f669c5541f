"""What commands print: results on standard output, prose and errors on standard error."""

from __future__ import annotations

import json
import math
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from testigo.errors import Problem
from testigo.signs import shown

if TYPE_CHECKING:
    from rich.console import Console

_WIDTH_OF_A_FILE = 200
MOST_PROBLEMS = 20
"""More are not read at once; they are counted."""
JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output, nothing else.")]
CampaignPath = Annotated[
    Path, typer.Argument(metavar="CAMPAIGN", help="The campaign file, or the workspace folder that it made.")
]
WorkspaceFlag = Annotated[
    Path | None, typer.Option("--workspace", metavar="DIR", help="The workspace, when it is not NAME.testigo here.")
]
LedgerFlag = Annotated[
    str | None,
    typer.Option(
        "--ledger",
        metavar="URL",
        envvar="TESTIGO_LEDGER",
        help="Keep the ledger on a server: postgresql://USER@HOST/DATABASE. Once; the workspace remembers it.",
    ),
]


def console(*, results: bool = False) -> Console:
    """The terminal: standard error for prose, or standard output for results. Nothing in a text is taken as markup."""
    from testigo.cli.screen import Screen  # slow to import, and not needed by --help

    file = sys.stdout if results else sys.stderr
    width = None if file.isatty() else _WIDTH_OF_A_FILE
    return Screen(file=file, width=width, soft_wrap=True)


def say(text: str, style: str | None = None) -> None:
    """Prose and progress, on standard error."""
    to = console()
    indent = " " * (len(text) - len(text.lstrip()) + 2)
    to.print(folded(text, to, indent), style=style)


def folded(text: str, to: Console, indent: str, *, first: str = "") -> str:
    """Lines of whole words on a terminal, continued under an indent; one line in a file, which is searched by lines."""
    text = shown(text)
    if not to.file.isatty():
        return text
    one, *others = text.split("\n") or [""]
    fold = textwrap.TextWrapper(to.width, initial_indent=first, subsequent_indent=indent)
    fold.break_long_words = fold.break_on_hyphens = False  # a path stays one word
    lines = [fold.fill(one).removeprefix(first)]
    fold.initial_indent = indent
    return "\n".join([*lines, *(fold.fill(line) for line in others)])


def show(text: str = "", style: str | None = None) -> None:
    """A result for a reader, on standard output, long lines folded on a terminal. Not with `--json`."""
    to = console(results=True)
    to.print("\n".join(_fitted(line, to) for line in shown(text).split("\n")), style=style)


def _fitted(line: str, to: Console) -> str:
    if len(line) <= to.width:
        return line  # as it is, spaces and all
    return folded(line, to, " " * (len(line) - len(line.lstrip()) + 2))


def show_as_it_is(text: str) -> None:
    """A result that may be copied letter for letter, such as JSON: never folded."""
    console(results=True).print(text)


def show_part(label: str, text: str, style: str | None = None) -> None:
    """A labelled part of a result, continued under its first word."""
    to, indent = console(results=True), " " * len(label)
    if not to.file.isatty():  # its further lines are no results of their own here either
        text = text.replace("\n", f"\n{indent}")
    to.print(folded(label + text, to, indent), style=style)


def show_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A result for a reader, as lines and columns on standard output."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*row)
    console(results=True).print(table, soft_wrap=False)


def print_json(document: Mapping[str, Any]) -> None:
    """The one JSON document of a command. Numbers that JSON does not know become null."""
    print(json.dumps(_finite(document), indent=2, allow_nan=False))


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value


def ending(*, next_command: str, checked: str = "", not_checked: str = "") -> None:
    """How each command ends: what was and what was not checked, and the command that comes next."""
    to = console()
    for label, text in (("checked", checked), ("not checked", not_checked), ("next", next_command)):
        if text:
            line = folded(f"{label + ':':<13}{text}", to, " " * 13)
            to.print(line, style="dim" if label != "next" else None)


def print_problems(problems: Sequence[Problem], *, as_json: bool) -> None:
    """Errors: each in four parts on standard error, or all as one JSON document on standard output."""
    if as_json:
        parts = [
            {
                "expected": problem.expected,
                "found": problem.found,
                "where": problem.where.partition("\n")[0],
                "action": problem.action,
            }
            for problem in problems
        ]
        print_json({"ok": False, "problems": parts})
        return
    for problem in problems[:MOST_PROBLEMS]:
        _print_problem(problem)
    if len(problems) > MOST_PROBLEMS:
        more = len(problems) - MOST_PROBLEMS
        say(f"{len(problems)} problems: {more} more are not shown; --json lists all.", style="bold red")
    elif len(problems) > 1:
        say(f"{len(problems)} problems.", style="bold red")


def _print_problem(problem: Problem) -> None:
    from rich.text import Text

    place, _, picture = shown(problem.where).partition("\n")
    text = Text(place, style="bold red")
    if picture:
        text.append(f"\n{picture}", style="not bold default")
    to = console()
    for label, words in (("expected", problem.expected), ("found", problem.found), ("do", problem.action)):
        text.append(f"\n  {label + ':':<10}", style="not bold cyan")
        text.append(folded(words, to, " " * 12, first=" " * 12), style="not bold default")
    to.print(text)


def named(campaign: Path, workspace: Path | None) -> str:
    """A campaign as the next command must name it."""
    return short(campaign) + (f" --workspace {short(workspace)}" if workspace is not None else "")


def short(path: Path) -> str:
    """A path as one would type it here."""
    try:
        near = path.resolve().relative_to(Path.cwd())
    except (ValueError, OSError):
        return str(path)
    return str(near)
