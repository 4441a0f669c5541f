"""The page about the commands, from the commands themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from testigo.cli.app import app


def commands_reference() -> str:
    """Every command with its arguments, options and example, as a Markdown page."""
    parts = [_INTRODUCTION]
    for name, command in _commands(typer.main.get_command(app), "testigo"):
        usage = " ".join([name, *(_usage(parameter) for parameter in command.params if parameter.name != "help")])
        parts += [f"## `{name}`\n", f"    {usage}\n", _prose(command.help or ""), _table(command)]
    return "\n".join(part for part in parts if part)


def _commands(group: Any, start: str) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, f"{start} {name}")
        else:
            yield f"{start} {name}", command


def _prose(text: str) -> str:
    lines = [" ".join(part.split()) for part in text.split("\n\n")]
    return (
        "\n\n".join(f"Example: `{line.removeprefix('Example: ')}`" if "Example:" in line else line for line in lines)
        + "\n"
    )


def _usage(parameter: Any) -> str:
    if _is_argument(parameter):
        return str(_metavar(parameter)) if parameter.required else f"[{_metavar(parameter)}]"
    return f"[{parameter.opts[0]}{' ' + _metavar(parameter) if not parameter.is_flag else ''}]"


def _table(command: Any) -> str:
    lines = ["| argument or option | meaning |", "|---|---|"]
    for parameter in command.params:
        if parameter.name == "help":
            continue
        if _is_argument(parameter):
            name = _metavar(parameter)
        else:
            name = ", ".join(parameter.opts) + ("" if parameter.is_flag else f" {_metavar(parameter)}")
        lines.append(f"| `{name}` | {parameter.help} |")
    return "\n".join(lines) + "\n"


def _is_argument(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "argument")


def _metavar(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper())


_INTRODUCTION = """# Commands

Written from the commands themselves by `make docs`; do not edit.

Results go to standard output, prose, progress and errors to standard error. With `--json` a command prints one JSON
document on standard output and nothing else there; an error is then
`{"ok": false, "problems": [{"expected", "found", "where", "action"}]}`.

| exit code | meaning |
|---|---|
| 0 | done, and nothing stopped it |
| 1 | a gate or a verification failed |
| 2 | the input is wrong |
| 3 | interrupted: run the same command again to go on |
| 70 | a fault of Testigo's own; please report it |
"""
