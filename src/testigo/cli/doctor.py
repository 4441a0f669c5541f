"""`testigo doctor`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from testigo.cli.output import JsonFlag, ending, print_json, short, show, show_table
from testigo.errors import FaultOfTestigo


def doctor(
    campaign: Annotated[
        Path | None, typer.Argument(help="a campaign file whose needs are held against the machine")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Say what this machine can do, link by link: devices, driver, torch's build, precisions, libraries, memory, disk.

    With a campaign file, what it declares is held against them. Exit code 1 when a link is broken.

    Example: testigo doctor campaign.yaml
    """
    from testigo.campaign import load

    settings = load(campaign) if campaign else None
    try:
        import torch  # noqa: F401
    except Exception as error:  # a build that does not fit the machine fails in many ways
        raise FaultOfTestigo(
            expected="a build of torch that imports here",
            found=f"{type(error).__name__}: {error}",
            where="import torch",
            action="install the build for this machine: pytorch.org/get-started lists it",
        ) from error
    from testigo.model.chain import chain, measured_bytes, precisions
    from testigo.model.device import platform_description

    links = chain(settings)
    problems = [f"{link.name}: {link.problem}" for link in links if link.problem]
    if as_json:
        document = {
            "ok": not problems,
            "chain": [link.to_json() for link in links],
            "precision": precisions(),
            **measured_bytes(),
            "platform": platform_description(),
            "problems": problems,
        }
        print_json(document)
    else:
        show_table(("link", "found", "what it means"), [(link.name, link.found, link.means) for link in links])
        for problem in problems:
            show(problem, style="bold red")
    ending(
        checked="every link from the device to the disk" + (f", against {short(campaign)}" if campaign else ""),
        not_checked="whether a campaign fits; testigo size predicts it, testigo pilot measures it",
        next_command=f"testigo size {short(campaign)}" if campaign else "testigo new FOLDER",
    )
    if problems:
        raise typer.Exit(1)
