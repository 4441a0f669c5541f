"""What the commands that work on a campaign begin with: file, rules, workspace, ledger, progress on the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from testigo.cli.output import say, short
from testigo.cli.terminal import Terminal
from testigo.errors import WorkspaceError

if TYPE_CHECKING:
    from testigo.campaign import Campaign, Workspace
    from testigo.conductor.grounds import Grounds


def load_campaign(path: Path) -> Campaign:
    """The campaign of a file, or of the workspace that it made; limits and waivers are held against the rules."""
    from testigo.campaign import Workspace, load
    from testigo.campaign.against_rules import check_rules
    from testigo.gates import all_rules

    file = path
    if path.is_dir():
        found = Workspace.find(path).campaign_path
        if found is None or not found.is_file():
            raise WorkspaceError(
                expected="the campaign file that made this workspace",
                found=f"no file at {found}",
                where=str(path),
                action="name the campaign file itself",
            )
        file = found
    campaign = load(file)
    check_rules(campaign, all_rules(tuple(campaign.folder / name for name in campaign.rules.files)))
    return campaign


def find_workspace(path: Path, given: Path | None = None) -> Workspace:
    """The workspace of a campaign file or folder; one that another file of the same name made is told as such."""
    from testigo.campaign.workspace import Workspace

    found = Workspace.find(path, given)
    if given is None and path.is_file():
        _tell_of_another(found, path)
    return found


def _tell_of_another(found: Workspace, path: Path) -> None:
    """Two campaigns of one name share the workspace `NAME.testigo` of a folder, unless somebody is told."""
    maker = found.campaign_path
    if maker is None or not maker.is_file() or maker.samefile(path):  # a file that was moved is still its own
        return
    beside = type(found)(path.resolve().parent / found.root.name)
    own = beside.campaign_path
    better = short(beside.root) if own is not None and own.is_file() and own.samefile(path) else "DIR"
    say(
        f"warning: {short(found.root)} was made by {short(maker)}, another file than {short(path)}; "
        f"--workspace {better} names another workspace",
        "bold yellow",
    )


@contextmanager
def opened(path: Path, workspace: Path | None, ledger: str | None = None, *, alone: bool = True) -> Iterator[Grounds]:
    """The grounds of a campaign, with progress on the terminal. `alone` refuses a second process on its workspace."""
    from testigo.campaign.workspace import Workspace
    from testigo.conductor import opening

    campaign = load_campaign(path)
    given = workspace if workspace is not None else path if path.is_dir() else None
    if given is None:
        _tell_of_another(Workspace.for_campaign(campaign), path)
    with Terminal() as terminal, opening.opened(campaign, given, terminal, ledger=ledger, alone=alone) as grounds:
        yield grounds
