"""The examples that `testigo new` writes: campaigns that run."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Literal

from testigo.errors import WorkspaceError

StarterTask = Literal["extraction", "classification"]
STARTER_FILES: dict[StarterTask, tuple[str, ...]] = {
    "extraction": ("campaign.yaml", "orders.jsonl", "order.schema.json"),
    "classification": ("campaign.yaml", "tickets.jsonl"),
}


def new_campaign(folder: Path, task: StarterTask = "extraction") -> Path:
    """Write an example campaign of a kind of task into a folder and return the campaign file.

    Raises
    ------
    WorkspaceError
        A file of the same name is there already, or the folder cannot be written.
    """
    names = STARTER_FILES[task]
    present = [name for name in names if (folder / name).exists()]
    if present:
        raise WorkspaceError(
            expected=f"a folder without {', '.join(names)}",
            found=", ".join(present),
            where=str(folder),
            action="name another folder; nothing was written",
        )
    starter = files("testigo.campaign") / "starter" / task
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            (folder / name).write_bytes((starter / name).read_bytes())
    except OSError as error:
        raise WorkspaceError(
            expected="a folder that can be written",
            found=error.strerror or str(error),
            where=str(folder),
            action="choose another folder, or change its permissions",
        ) from error
    return folder / "campaign.yaml"
