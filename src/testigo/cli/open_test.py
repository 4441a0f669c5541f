"""`testigo open-test`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from textwrap import fill
from typing import Annotated, Any

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
    """Open the sealed test rows for the baseline and one choice. Each opening is recorded and weakens the conclusion.

    Example: testigo open-test campaign.yaml --because "the control is final"
    """
    from testigo.conductor import story
    from testigo.ledger import kinds
    from testigo.ledger.question import OPENING, asking

    with opened(campaign, workspace) as grounds:
        n_before = len(grounds.ledger.events(kind=kinds.TEST_OPENED))
        alpha = grounds.campaign.hypothesis.alpha
        if not because.strip() and not yes and sys.stdin.isatty():
            with asking(grounds.workspace.root, OPENING):
                because = typer.prompt("Why is the test opened now? The report prints it", err=True)
        if not because.strip():
            raise WorkspaceError(
                expected="a reason in words, which the report prints",
                found="none",
                where="--because",
                action="say why the test is opened now",
            )
        story.check_openable(grounds)
        if not yes:
            with asking(grounds.workspace.root, OPENING):
                _ask(n_before, alpha)
        comparison = story.open_test(grounds, reason=because.strip(), confirmed=not yes)
        n_openings = len(grounds.ledger.events(kind=kinds.TEST_OPENED))
        price = read_price(grounds.workspace.root)
    document = {"ok": comparison is not None, "openings": n_openings, "price": price,
                "comparison": comparison.to_json() if comparison else None}  # fmt: skip
    if as_json:
        print_json(document)
    elif comparison is not None:
        show(f"on the sealed test, opening {n_openings}: {comparison.conclusion}", "bold")
        if price and n_openings > 1:
            show(fill(told_price(price), 79))
    ending(
        checked="the baseline and the choice on the test rows",
        not_checked="what was not chosen on the test rows: one choice goes to the test",
        next_command=f"testigo verify {short(grounds.workspace.dossier)}",
    )


def read_price(workspace: Path) -> dict[str, Any] | None:
    """What the last opening's result is worth beside those before it; None while the test is sealed."""
    try:
        document = json.loads((workspace / "comparison-test.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    price = document.get("openings") if isinstance(document, dict) else None
    return price if isinstance(price, dict) else None


def told_price(price: dict[str, Any]) -> str:
    """The price in a sentence."""
    n, p, corrected = price["openings"], price["p_value"], price["corrected_p_value"]
    if n == 1:
        return f"the sealed test was opened once: p = {p:.2g}"
    return (
        f"the sealed test was opened {n} times: corrected for {n} openings (Holm), p = {p:.2g} becomes "
        f"{corrected:.2g}, and the improvement is {price['verdict']}"
    )


def _ask(n_before: int, alpha: float) -> None:
    if not sys.stdin.isatty():
        raise WorkspaceError(
            expected="a person who confirms the opening, or --yes",
            found="no terminal to ask on",
            where="testigo open-test",
            action="add --yes; the ledger says that nobody was asked",
        )
    if not n_before:
        told = "It was never opened. The opening is recorded; each further one weakens the conclusion."
    else:
        times = "once" if n_before == 1 else f"{n_before} times"
        from testigo.judgement.openings import chance_of_false_improvement

        chance = chance_of_false_improvement(n_before + 1, alpha)
        told = (
            f"It was opened {times} before. Once more, and the chance of a false improvement is up to {chance:.2g} "
            f"instead of {alpha:g}, unless p-values are corrected, which the report does."
        )
    show(fill(told, 79))
    typer.confirm("Open the sealed test?", abort=True, err=True)
