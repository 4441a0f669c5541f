"""`testigo verify`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from testigo.cli.output import JsonFlag, ending, print_json, short, show
from testigo.cli.terminal import Terminal
from testigo.counting import counted
from testigo.errors import TestigoError, WorkspaceError


def verify(
    folder: Annotated[Path, typer.Argument(metavar="DOSSIER", help="A dossier's folder, or an adapter's.")],
    base: Annotated[
        str | None,
        typer.Option(
            metavar="BASE", help="Base model for the control inputs, as in a campaign: hub:, path:, package:."
        ),
    ] = None,
    no_control: Annotated[
        bool, typer.Option("--no-control", help="Do not load the model to try the control inputs.")
    ] = False,
    trusted: Annotated[
        bool,
        typer.Option("--trust-remote-code", help="Let the Python files run that the base brings; read them before."),
    ] = False,
    key: Annotated[
        Path | None,
        typer.Option("--key", metavar="PUBLIC", help="The public key that must have signed the dossier (Ed25519)."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Check a dossier or an adapter again: files, ledger, statistics, control inputs. Exit code 1 when one is false.

    The base that the dossier names is loaded when it is installed here; one from the hub only with --base.

    Example: testigo verify orders.testigo/dossier
    """
    from testigo.dossier import in_fresh_process, verify_dossier
    from testigo.dossier.control import base_at_hand, runs_own_code

    if not any((folder / name).is_file() for name in ("dossier.json", "SHA256SUMS", "testigo.json")):
        raise WorkspaceError(
            expected="a dossier's folder, or an adapter's",
            found="no dossier.json and no testigo.json in it" if folder.is_dir() else "no such folder",
            where=str(folder),
            action="name the folder `dossier` in a campaign's workspace, or the folder of an export",
        )
    named = base or _named_base(folder)
    why = "--no-control" if no_control else "" if base else base_at_hand(named) if named else "give --base BASE"
    if not why and not trusted and runs_own_code(folder):
        why = "the base brings code of its own: --trust-remote-code lets it run"
    with Terminal() as terminal:
        control = None if why else in_fresh_process(named, trusted=trusted, reporter=terminal)
        result = verify_dossier(folder, control=control, without_control=why, key=key)
    if as_json:
        print_json(result.to_json())
    else:
        for fault in result.faults:
            show(f"false: {fault}")
        show(f"{counted(result.files, 'file')}, {'nothing false' if result.ok else f'{len(result.faults)} false'}.")
    ending(
        checked="; ".join(result.checked),
        not_checked="; ".join(result.not_checked),
        next_command=f"open {short(folder / 'index.html')}" if result.ok else "get an unchanged copy",
    )
    if not result.ok:
        raise typer.Exit(1)


def _named_base(folder: Path) -> str:
    """The base that the dossier says it stands on; empty when it cannot be read."""
    from testigo.dossier import read_record

    try:
        return read_record(folder).plan.base
    except (OSError, ValueError, TestigoError):
        return ""
