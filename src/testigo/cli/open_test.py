"""`testigo open-test`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from testigo.cli.opening import opened
from testigo.cli.output import CampaignPath, JsonFlag, WorkspaceFlag, ending, print_json, short, show
from testigo.errors import WorkspaceError


def open_test(
    campaign: CampaignPath,
    because: Annotated[str, typer.Option("--because", metavar="REASON", help="Why the test is opened now.")] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Open without being asked; the ledger says so.")] = False,
    workspace: WorkspaceFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Open the sealed test rows for baseline and control. Each opening is recorded and weakens the conclusion.

    Example: testigo open-test campaign.yaml --because "the control is final"
    """
    from testigo.conductor import story
    from testigo.ledger import kinds

    with opened(campaign, workspace) as grounds:
        n_before = len(grounds.ledger.events(kind=kinds.TEST_OPENED))
        if not because.strip():
            raise WorkspaceError(
                expected="a reason in words, which the report prints",
                found="none",
                where="--because",
                action="say why the test is opened now",
            )
        story.check_openable(grounds)
        if not yes:
            _ask(n_before)
        comparison = story.open_test(grounds, reason=because.strip(), confirmed=not yes)
        n_openings = len(grounds.ledger.events(kind=kinds.TEST_OPENED))
    document = {"ok": comparison is not None, "openings": n_openings,
                "comparison": comparison.to_json() if comparison else None}  # fmt: skip
    if as_json:
        print_json(document)
    elif comparison is not None:
        show(f"on the sealed test, opening {n_openings}: {comparison.conclusion}", "bold")
    ending(
        checked="baseline and control on the test rows",
        not_checked="the variants on the test rows: one choice goes to the test",
        next_command=f"testigo verify {short(grounds.workspace.dossier)}",
    )


def _ask(n_before: int) -> None:
    if not sys.stdin.isatty():
        raise WorkspaceError(
            expected="a person who confirms the opening, or --yes",
            found="no terminal to ask on",
            where="testigo open-test",
            action="add --yes; the ledger says that nobody was asked",
        )
    typer.confirm(f"Open the sealed test? It was opened {n_before} times before.", abort=True, err=True)
