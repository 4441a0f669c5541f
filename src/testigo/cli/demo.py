"""`testigo demo`."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from testigo.cli.output import JsonFlag, say, short
from testigo.cli.run import run
from testigo.errors import WorkspaceError

_FILES = ("campaign.yaml", "order.schema.json", "orders.jsonl")


def demo(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where the demo works; made when missing.")] = Path(
        "testigo-demo"
    ),
    as_json: JsonFlag = False,
) -> None:
    """Carry one real campaign from file to dossier: orders out of e-mails, on a CPU, in about ten minutes.

    Example: testigo demo build/demo
    """
    example = _example()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in _FILES:
            if not (folder / name).exists():
                shutil.copy(example / name, folder / name)
    except OSError as error:
        raise WorkspaceError(
            expected="a folder that can be written",
            found=error.strerror or str(error),
            where=str(folder),
            action="name another folder",
        ) from error
    campaign = folder / "campaign.yaml"
    say(f"the campaign file: {short(campaign)}")
    run(campaign, workspace=folder / "orders.testigo", yes=True, as_json=as_json)


def _example() -> Path:
    """In an installed package beside the code; in a checkout at its root."""
    import testigo

    code = Path(testigo.__file__).parent
    places = [code / "examples" / "orders", code.parents[1] / "examples" / "orders"]
    return next(place for place in places if place.is_dir())
