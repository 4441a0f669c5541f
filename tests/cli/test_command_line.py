"""What holds for every command: where things are printed, how errors look, how it ends."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from testigo.campaign import new_campaign
from testigo.cli import app, run
from testigo.cli import app as application
from testigo.cli.app import FAULT_OF_OURS
from testigo.errors import GateFailed, Interrupted


def commands(group: Any, start: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*start, name))
        else:
            yield (*start, name), command


ALL = list(commands(typer.main.get_command(app)))
NAMES = [" ".join(names) for names, _ in ALL]


def test_help_lists_the_commands_and_imports_nothing_heavy() -> None:
    code = (
        "import sys; from testigo.cli import run; code = run(['--help']);"
        "heavy = {'torch', 'transformers', 'sqlalchemy', 'pydantic', 'ruamel', 'numpy', 'datasets'} & set(sys.modules);"
        "sys.exit(str(heavy) if heavy else code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    for name in ("new", "status", "explain", "doctor", "ledger"):
        assert f"\n  {name} " in done.stdout
    assert done.stdout.count("...") == 1, "each summary is whole; only the usage has dots"


def test_the_package_runs_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "testigo", "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip().count("."), done.stderr) == (0, 2, "")


@pytest.mark.parametrize(("names", "command"), ALL, ids=NAMES)
def test_every_command_has_a_help_with_an_example_and_prints_json(names: tuple[str, ...], command: Any) -> None:
    text = command.help or ""
    assert f"Example: testigo {' '.join(names)}" in text
    assert text.strip()[0].isupper()
    assert "--json" in [option for parameter in command.params for option in parameter.opts]
    assert all(parameter.help for parameter in command.params if parameter.name != "help")


@pytest.mark.parametrize("names", [names for names, _ in ALL], ids=NAMES)
def test_every_command_answers_a_wrong_option_with_one_json_document(
    names: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*names, "--no-such-option", "--json"]) == 2
    document = json.loads(capsys.readouterr().out)
    assert document["ok"] is False
    assert set(document["problems"][0]) == {"expected", "found", "where", "action"}
    assert "--no-such-option" in document["problems"][0]["found"]


def test_a_users_error_is_four_parts_on_standard_error_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = new_campaign(tmp_path)
    path.write_text(path.read_text().replace("campaign: orders", "campaign: 'orders"))
    assert run(["status", str(path)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "Traceback" not in printed.err
    for part in (f"{path}:2:11\n", "    2 | campaign: 'orders\n", "^", "expected: ", "found:    ", "do:       "):
        assert part in printed.err, printed.err


def test_an_unknown_command_is_an_error_of_the_user(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["stauts", "--json"]) == 2
    assert "stauts" in json.loads(capsys.readouterr().out)["problems"][0]["found"]


def test_what_the_user_wrote_is_never_taken_as_markup(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["status", "[red]no[/nothing] :smile:.yaml"]) == 2
    assert "[red]no[/nothing] :smile:.yaml" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (GateFailed(expected="a", found="b", where="c", action="d"), 1, "expected: a"),
        (Interrupted(expected="a", found="b", where="c", action="d"), 3, "found:    b"),
        (KeyboardInterrupt(), 3, "Run the same command again"),
        (ZeroDivisionError("of ours"), FAULT_OF_OURS, "ZeroDivisionError: of ours"),
    ],
)
def test_each_kind_of_error_has_its_exit_code(
    error: BaseException, code: int, words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    another = typer.Typer(add_completion=False, rich_markup_mode=None)

    @another.callback()
    def root() -> None:
        pass

    @another.command()
    def fail(as_json: bool = typer.Option(False, "--json")) -> None:
        raise error

    monkeypatch.setattr(sys.modules["testigo.cli.app"], "app", another)
    assert run(["fail"]) == code
    printed = capsys.readouterr()
    assert words in printed.err
    assert printed.out == ""
    assert run(["fail", "--json"]) == code
    document = json.loads(capsys.readouterr().out)
    assert document["ok"] is False


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    line = f"{sys.executable} -m testigo explain 2>{tmp_path / 'errors'} | head -2"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert done.stdout.strip()
    assert "Traceback" not in (tmp_path / "errors").read_text()


def test_the_app_is_one() -> None:
    assert application is app
