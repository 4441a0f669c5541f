"""The commands in the order of a campaign, and what becomes of errors."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from testigo import __version__
from testigo.beginning import interrupted, was_interrupted
from testigo.cli import ledger
from testigo.cli import run as _run
from testigo.cli.baseline import baseline
from testigo.cli.by_hand import amend, stop, waive
from testigo.cli.check import check
from testigo.cli.checklist import checklist
from testigo.cli.compare import compare
from testigo.cli.demo import demo
from testigo.cli.diagnose import diagnose
from testigo.cli.doctor import doctor
from testigo.cli.dossier import dossier
from testigo.cli.explain import explain
from testigo.cli.export import export
from testigo.cli.new import new
from testigo.cli.note import note
from testigo.cli.open_test import open_test
from testigo.cli.output import print_problems, say
from testigo.cli.pilot import pilot
from testigo.cli.plan import plan
from testigo.cli.serve import serve
from testigo.cli.show import show
from testigo.cli.size import size
from testigo.cli.status import status
from testigo.cli.verify import verify
from testigo.errors import Problem, TestigoError
from testigo.redaction import without_secrets

COMMANDS: tuple[Callable[..., None], ...] = (
    new,
    check,
    show,
    size,
    baseline,
    pilot,
    _run.run,
    status,
    serve,
    compare,
    open_test,
    export,
    dossier,
    verify,
    plan,
    note,
    stop,
    waive,
    amend,
    diagnose,
    checklist,
    explain,
    doctor,
    demo,
)
"""One line a command, in the order in which a campaign needs them."""
GROUPS: dict[str, typer.Typer] = {"ledger": ledger.app}
"""Commands with commands inside."""

FAULT_OF_OURS = 70
_TYPER_INTERRUPTED = 130
_UsageError: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")

app = typer.Typer(
    name="testigo",
    help="Fine-tuning campaigns that can be trusted.",
    epilog="Exit codes: 0 done; 1 a gate or verification failed; 2 the input is wrong; 3 interrupted, run it again.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Fine-tuning campaigns that can be trusted."""


def _summary(command: Callable[..., None]) -> str:
    """The first sentence, whole: left to itself, the list of commands cuts it at the end of a line."""
    text = " ".join((command.__doc__ or "").partition("\n\n")[0].split())
    return text.partition(". ")[0].rstrip(".")


for _command in COMMANDS:
    app.command(_command.__name__.replace("_", "-"), short_help=_summary(_command))(_command)
for _name, _group in GROUPS.items():
    app.add_typer(_group, name=_name, short_help=str(_group.info.help).rstrip("."))


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code. A user's error is four parts on standard error, never a traceback.

    With `--json` an error is one JSON document on standard output:
    `{"ok": false, "problems": [{"expected", "found", "where", "action"}]}`.
    """
    as_json = "--json" in arguments
    try:
        code: Any = app(args=list(arguments), prog_name="testigo", standalone_mode=False)
        sys.stdout.flush()
    except TestigoError as error:
        print_problems(error.problems, as_json=as_json)
        return error.exit_code
    except _UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # `testigo` alone: its help is the whole message
            say(error.format_message())
            return 2
        print_problems([_usage_problem(error).redacted()], as_json=as_json)
        return 2
    except (KeyboardInterrupt, typer.Abort):
        return interrupted(as_json=as_json)
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if was_interrupted(error):
            return interrupted(as_json=as_json)
        print(without_secrets(traceback.format_exc()), file=sys.stderr)
        print_problems([_fault_of_ours(error)], as_json=as_json)
        return FAULT_OF_OURS
    if code == _TYPER_INTERRUPTED:
        return interrupted(as_json=as_json)
    return code if isinstance(code, int) else 0


def main() -> None:
    """The entry point of `testigo`. Being asked to end, and a terminal that goes away, are heard as Ctrl-C is."""
    for name in ("SIGTERM", "SIGHUP"):  # by the first of several processes of a container they would be ignored
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)
    sys.exit(run(sys.argv[1:]))


def _usage_problem(error: Any) -> Problem:
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "testigo"
    return Problem(
        expected=f"a use that `{command} --help` shows",
        found=error.format_message().rstrip("."),
        where=f"the command line of `{command}`",
        action=f"{command} --help",
    )


def _fault_of_ours(error: Exception) -> Problem:
    return Problem(
        expected="no fault of Testigo's own",
        found=without_secrets(f"{type(error).__name__}: {error}"),
        where="Testigo",
        action="report it with the lines above; nothing that was recorded is lost",
    )
