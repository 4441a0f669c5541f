"""A run that a person ends: a request lies in its folder, and the loop looks for it once an update."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from testigo.disk import write_atomically

FILE: Final = "stop-asked.json"
CAUSE: Final = "stopped by hand"


def ask_to_stop(folder: Path, *, by: str, reason: str) -> None:
    """Leave the request in a run's folder. It stays there, as what happened."""
    write_atomically(folder / FILE, json.dumps({"by": by, "reason": reason}, ensure_ascii=False) + "\n")


def is_asked(folder: Path) -> bool:
    """Whether somebody has asked this run to stop."""
    return (folder / FILE).exists()
