"""What the commands that work on a campaign begin with: file, rules, workspace, ledger, progress on the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from testigo.cli.terminal import Terminal
from testigo.errors import WorkspaceError

if TYPE_CHECKING:
    from testigo.campaign import Campaign
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


@contextmanager
def opened(path: Path, workspace: Path | None, ledger: str | None = None, *, alone: bool = True) -> Iterator[Grounds]:
    """The grounds of a campaign, with progress on the terminal. `alone` refuses a second process on its workspace."""
    from testigo.conductor import opening

    campaign = load_campaign(path)
    given = workspace if workspace is not None else path if path.is_dir() else None
    with Terminal() as terminal, opening.opened(campaign, given, terminal, ledger=ledger, alone=alone) as grounds:
        yield grounds
