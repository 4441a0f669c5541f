"""`testigo serve`."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from typing import Annotated

import typer

from testigo.cli.output import CampaignPath, JsonFlag, WorkspaceFlag
from testigo.errors import MissingExtra


def serve(
    campaign: CampaignPath,
    port: Annotated[int, typer.Option("--port", metavar="N", help="The port; 0 takes a free one.", min=0)] = 8420,
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="The address; any but loopback needs a token.")
    ] = "127.0.0.1",
    token: Annotated[
        str | None, typer.Option("--token", metavar="TOKEN", help="What a client must show: 16 characters or more.")
    ] = None,
    workspace: WorkspaceFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Show the campaign live in a browser, while it runs and after. Nothing is changed; Ctrl-C ends it.

    Example: testigo serve campaign.yaml
    """
    from testigo.campaign.workspace import Workspace

    found = Workspace.find(campaign, workspace)
    for library in ("starlette", "uvicorn"):
        if find_spec(library) is None:
            raise MissingExtra(library, "page", "serves the live page")
    command = [sys.executable, "-m", "testigo.page", str(found.root), "--host", host, "--port", str(port)]
    command += ["--token", token] if token is not None else []
    sys.stdout.flush()
    # This process becomes the page: the two rooms do not know each other, and a signal reaches the page itself.
    os.execv(command[0], [*command, *(["--json"] if as_json else [])])
