"""`testigo serve`."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from testigo.beginning import become
from testigo.cli.opening import find_workspace
from testigo.cli.output import JsonFlag, WorkspaceFlag
from testigo.errors import MissingExtra

if TYPE_CHECKING:
    from testigo.campaign.workspace import Workspace


def serve(
    campaigns: Annotated[
        list[Path],
        typer.Argument(metavar="CAMPAIGN...", help="Campaign files, workspaces, or a folder that workspaces lie in."),
    ],
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
    """Show one or many campaigns live in a browser, while they run and after; Ctrl-C ends the page alone.

    Two addresses are printed: one to read, and one with a token for who may also stop runs, confirm, waive and amend.

    Example: testigo serve campaign.yaml
    """
    found = [place for one in campaigns for place in _workspaces(one, workspace)]
    for library in ("starlette", "uvicorn"):
        if find_spec(library) is None:
            raise MissingExtra(library, "page", "serves the live page")
    arguments = [
        *(str(one.root) for one in found),
        "--host",
        host,
        "--port",
        str(port),
    ]
    arguments += ["--token", token] if token is not None else []
    # This process becomes the page: the two rooms do not know each other, and a signal reaches the page itself.
    become("testigo.page.__main__", [*arguments, *(["--json"] if as_json else [])])


def _workspaces(path: Path, given: Path | None) -> list[Workspace]:
    """The workspace of a campaign, or all that lie in a folder that is none itself."""
    from testigo.campaign.workspace import MARKER, Workspace

    inside = (
        sorted(path.glob(f"*/{MARKER}")) if given is None and path.is_dir() and not (path / MARKER).exists() else []
    )
    return [Workspace.find(marker.parent) for marker in inside] or [find_workspace(path, given)]
