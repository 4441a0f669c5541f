"""`testigo new`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from testigo.cli.output import JsonFlag, ending, print_json, short, show


def new(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder to write into; it is made if missing.")],
    task: Annotated[
        Literal["extraction", "classification"],
        typer.Option("--task", help="What a row asks for: a JSON object (extraction), or one of some classes."),
    ] = "extraction",
    as_json: JsonFlag = False,
) -> None:
    """Write an example campaign that runs on a laptop: a commented campaign file and its rows, to be replaced by yours.

    Other kinds of task are written into the same file by hand: docs/tasks.md.

    Example: testigo new tickets --task classification
    """
    from testigo.campaign.starting import STARTER_FILES, new_campaign

    path = new_campaign(folder, task)
    files = [short(folder / name) for name in STARTER_FILES[task]]
    if as_json:
        print_json({"ok": True, "campaign": short(path), "files": files})
    else:
        show("\n".join(files))
    ending(not_checked="the campaign file; it is yours to change", next_command=f"testigo check {short(path)}")
