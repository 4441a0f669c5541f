"""`testigo stop`, `testigo waive` and `testigo amend`: what a person decides, each an event of the ledger."""

from __future__ import annotations

import getpass
from typing import Annotated

import typer

from testigo.cli.opening import find_workspace, load_campaign
from testigo.cli.output import CampaignPath, JsonFlag, WorkspaceFlag, ending, named, print_json, show
from testigo.errors import WorkspaceError

Because = Annotated[str, typer.Option("--because", metavar="REASON", help="Why, in words; it is kept in the ledger.")]
By = Annotated[str, typer.Option("--by", metavar="NAME", help="Who decides; without it, who is logged in.")]


def stop(
    campaign: CampaignPath,
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run's id; testigo status lists them.")],
    because: Because = "",
    by: By = "",
    workspace: WorkspaceFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Stop a run for good after its present update: it validates, saves, and ends as stopped-early.

    The campaign goes on with the next run. To interrupt a run and go on with it later, press Ctrl-C instead.

    Example: testigo stop campaign.yaml control-s0-1a2b3c4d5e --because "the loss stands still"
    """
    from testigo.conductor import by_hand

    found = find_workspace(campaign, workspace)
    with found.open_ledger() as ledger:
        event = by_hand.stop(found, ledger, run, by=by or person(), reason=because)
    if as_json:
        print_json({"ok": True, "event": event.number, "run": run})
    else:
        show(f"event {event.number}: {run} was asked to stop; it ends after its present update")
    ending(next_command=f"testigo status {named(campaign, workspace)}")


def waive(
    campaign: CampaignPath,
    code: Annotated[str, typer.Argument(metavar="CODE", help="The rule's code, such as E107.")],
    because: Because = "",
    workspace: WorkspaceFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Waive a rule with a reason: it goes into the campaign file, the ledger, and the report's first page.

    Example: testigo waive campaign.yaml E107 --because "the classes are unequal by design"
    """
    from testigo.conductor import by_hand
    from testigo.gates import all_rules

    loaded, found = load_campaign(campaign), find_workspace(campaign, workspace)
    rules = all_rules(tuple(loaded.folder / name for name in loaded.rules.files))
    with found.open_ledger() as ledger:
        event = by_hand.waive(
            loaded,
            ledger,
            code.upper(),
            reason=because,
            stopping=[rule.code for rule in rules if rule.severity == "stop"],
        )
    if as_json:
        print_json({"ok": True, "event": event.number, "code": code.upper()})
    else:
        show(f"event {event.number}: {code.upper()} is waived, in {loaded.path.name} and in the ledger")
    ending(next_command=f"testigo run {named(campaign, workspace)}")


def amend(
    campaign: CampaignPath,
    because: Because = "",
    workspace: WorkspaceFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Register what was changed in the campaign file after runs began, with the reason. Nothing is trained.

    While `testigo run` goes on it is refused: its runs would be trained as the file was when it began.

    Example: testigo amend campaign.yaml --because "the learning rate was too high for the larger batch"
    """
    from testigo.conductor import by_hand
    from testigo.conductor.opening import at_rest
    from testigo.ledger import kinds

    loaded, found = load_campaign(campaign), find_workspace(campaign, workspace)
    if found.campaign_name != loaded.name:
        raise WorkspaceError(
            expected=f"the workspace of the campaign `{loaded.name}`",
            found=f"that of `{found.campaign_name}`",
            where=str(found.root),
            action="name the right folder with --workspace",
        )
    # The campaign that goes on was read before the change and would be told as if it had been trained with it.
    way = "stop it first (Ctrl-C; what was trained is kept), amend, and run again"
    with at_rest(found.root, otherwise=way), found.open_ledger() as ledger:
        what = by_hand.amend(loaded, ledger, reason=because)
        changes = ledger.events(kinds.CAMPAIGN_AMENDED)[-1].body["changes"] if what == "amended" else {}
    if as_json:
        print_json({"ok": True, "state": what, "changes": changes})
    else:
        show(f"{what}: " + ("; ".join(changes) if changes else "the file says what was registered"))
    ending(
        not_checked="rows and base; testigo run holds them against what was registered",
        next_command=f"testigo run {named(campaign, workspace)}",
    )


def person() -> str:
    """Who is logged in; empty where nobody can tell."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""
