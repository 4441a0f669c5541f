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
    merged: Annotated[
        bool, typer.Option("--merged", help="Write the whole model, the adapter merged into it, to --out.")
    ] = False,
    workspace: WorkspaceFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Write the control's adapter, bound to its base, and reproduce its control inputs in a fresh process.

    Example: testigo export campaign.yaml --out adapter
    """
    with opened(campaign, workspace) as grounds:
        from testigo.conductor import deliver

        place = deliver.export(grounds, out, merged=merged)
        base, folder = grounds.campaign.model.base, grounds.campaign.folder
    if as_json:
        print_json({"ok": True, "folder": place, "base": base})
    else:
        show(f"{'model' if merged else 'adapter'}: {short(place)}")
    ending(
        checked="files, base and control inputs, in a fresh process",
        not_checked="other machines",
        next_command=f"testigo verify {short(place)} --base {_found_from_here(base, folder)}",
    )


def _found_from_here(base: str, folder: Path) -> str:
    """A base in a folder is relative to the campaign file there, and to the current folder on the command line."""
    path = base.removeprefix("path:")
    return base if path == base else f"path:{short((folder / path).resolve())}"
