"""The example that `testigo new` writes: a campaign that runs."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from testigo.errors import WorkspaceError

STARTER_FILES = ("campaign.yaml", "orders.jsonl", "order.schema.json")


def new_campaign(folder: Path) -> Path:
    """Write an example campaign into a folder and return the campaign file.

    Raises
    ------
    WorkspaceError
        A file of the same name is there already, or the folder cannot be written.
    """
    present = [name for name in STARTER_FILES if (folder / name).exists()]
    if present:
        raise WorkspaceError(
            expected=f"a folder without {', '.join(STARTER_FILES)}",
            found=", ".join(present),
            where=str(folder),
            action="name another folder; nothing was written",
        )
    starter = files("testigo.campaign") / "starter"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in STARTER_FILES:
            (folder / name).write_bytes((starter / name).read_bytes())
    except OSError as error:
        raise WorkspaceError(
            expected="a folder that can be written",
            found=error.strerror or str(error),
            where=str(folder),
            action="choose another folder, or change its permissions",
        ) from error
    return folder / "campaign.yaml"
