"""`testigo run`."""

from __future__ import annotations

import sys
import textwrap
from typing import TYPE_CHECKING, Annotated, Any

import typer

from testigo.cli.opening import opened
from testigo.cli.output import CampaignPath, JsonFlag, LedgerFlag, WorkspaceFlag, ending, named, print_json, short, show
from testigo.errors import WorkspaceError

if TYPE_CHECKING:
    from testigo.conductor.grounds import Grounds

_WIDTH = 79
AmendFlag = Annotated[
    str | None, typer.Option("--amend", metavar="REASON", help="Why the campaign was changed after runs had begun.")
]
YesFlag = Annotated[
    bool, typer.Option("--yes", help="Confirm samples without looking; the ledger says that nobody looked.")
]


def run(
    campaign: CampaignPath,
    workspace: WorkspaceFlag = None,
    ledger: LedgerFlag = None,
    amend: AmendFlag = None,
    yes: YesFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """The whole campaign: baseline, pilot, every run, comparison, export, dossier. Run it again to go on.

    Example: testigo run campaign.yaml
    """
    from testigo.conductor import story

    with opened(campaign, workspace, ledger) as grounds:
        _confirm_samples(grounds, looks=not yes)
        comparison = story.run(grounds, amend=amend)
        document = report(grounds, comparison)
    _print(document, named(campaign, workspace), as_json)


def _confirm_samples(grounds: Grounds, *, looks: bool) -> None:
    """Ask once whether samples look right; without a terminal or with --yes the ledger says that nobody looked."""
    from testigo.cli.show import print_rows
    from testigo.pilot.check import check

    if grounds.are_samples_confirmed:
        return
    looked = looks and sys.stdin.isatty() and sys.stderr.isatty()
    if looked:
        checked = check(grounds.campaign, grounds.corpus, grounds.base)
        by_category = {row.category: row for row in reversed(checked.rows["train"])}
        print_rows(checked.encoder, list(by_category.values()), results=False)
        if not typer.confirm("Do these samples show what the model should see (green is learned)?", err=True):
            raise WorkspaceError(
                expected="samples that show what the model should see",
                found="somebody looked and said no",
                where=str(grounds.campaign.path),
                action=f"mend rows, task or template; testigo show {short(grounds.campaign.path)} shows them again",
            )
    grounds.record_samples(looked=looked)


def report(grounds: Grounds, comparison: Any) -> dict[str, Any]:
    """What a whole campaign came to."""
    runs = [{"id": run.id, "variant": run.variant, "seed": run.seed, "state": run.state, "cause": run.cause,
             "updates": run.updates} for run in grounds.ledger.runs()]  # fmt: skip
    return {
        "ok": comparison is not None,
        "conclusion": comparison.conclusion if comparison is not None else "no run of the control ended well",
        "comparison": comparison.to_json() if comparison is not None else None,
        "runs": runs,
        "dossier": grounds.workspace.dossier / "index.html",
    }


def _print(document: dict[str, Any], name: str, as_json: bool) -> None:
    if as_json:
        print_json(document)
    else:
        show(textwrap.fill(document["conclusion"], _WIDTH), "bold")
        show(f"dossier: {short(document['dossier'])}")
    if not document["ok"]:
        ending(
            checked="every phase by the pilot; each run to the end that it came to",
            not_checked="whether anything is better than the baseline",
            next_command=f"testigo status {name}",
        )
        raise typer.Exit(1)
    ending(
        checked="every phase by the pilot, every run, the validation rows, the export in a fresh process",
        not_checked="the sealed test rows",
        next_command=f"testigo open-test {name} --because '…'",
    )
