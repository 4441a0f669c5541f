"""`testigo export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from testigo.cli.opening import opened
from testigo.cli.output import CampaignPath, JsonFlag, WorkspaceFlag, ending, print_json, short, show


def export(
    campaign: CampaignPath,
    out: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="A new folder for a copy.")] = None,
    workspace: WorkspaceFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Write the control's adapter, bound to its base, and reproduce its control inputs in a fresh process.

    Example: testigo export campaign.yaml --out adapter
    """
    with opened(campaign, workspace) as grounds:
        from testigo.conductor import deliver

        place = deliver.export(grounds, out)
        base = grounds.campaign.model.base
    if as_json:
        print_json({"ok": True, "folder": place, "base": base})
    else:
        show(f"adapter: {short(place)}")
    ending(
        checked="files, base and control inputs, in a fresh process",
        not_checked="other machines",
        next_command=f"testigo verify {short(place)} --base {base}",
    )
