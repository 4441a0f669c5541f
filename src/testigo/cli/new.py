"""`testigo new`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from testigo.cli.output import JsonFlag, ending, print_json, short, show


def new(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder to write into; it is made if missing.")],
    as_json: JsonFlag = False,
) -> None:
    """Write an example campaign that runs on a laptop: a campaign file, 120 rows and their schema.

    Example: testigo new orders
    """
    from testigo.campaign.starting import STARTER_FILES, new_campaign

    path = new_campaign(folder)
    files = [short(folder / name) for name in STARTER_FILES]
    if as_json:
        print_json({"ok": True, "campaign": short(path), "files": files})
    else:
        show("\n".join(files))
    ending(not_checked="the campaign file; it is yours to change", next_command=f"testigo check {short(path)}")
