"""trackio: its local database. A run that goes on is found by its name; points that it has are not sent again."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from testigo.watch.trackers.tracker import TrackedRun

_ELSEWHERE = ("TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL", "TRACKIO_WEBHOOK_URL")
"""Variables by which trackio would send what it is told; `trackio sync` does that when it is wanted."""


class Trackio:
    """Values with their update as step."""

    def __init__(self, run: TrackedRun) -> None:
        for name in _ELSEWHERE:
            os.environ.pop(name, None)
        import trackio
        from trackio.sqlite_storage import SQLiteStorage

        self._trackio = trackio
        project = run.options["project"] or run.campaign
        self._run: Any = trackio.init(
            project=project, name=run.name, group=str(run.settings.get("variant", "")), config=dict(run.settings),
            resume="allow", embed=False, auto_log_gpu=False, auto_log_cpu=False,
        )  # fmt: skip
        known = SQLiteStorage.get_logs(project, run.name, run_id=self._run.id)
        self._has = {(key, line.get("step")) for line in known for key in line}

    def values(self, update: int, values: Mapping[str, float]) -> None:
        """A line, unless it is there."""
        self._log(update, dict(values))

    def text(self, update: int, name: str, text: str) -> None:
        """A text, shown as Markdown."""
        self._log(update, {name: self._trackio.Markdown(text)})

    def table(self, update: int, name: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """A table."""
        self._log(update, {name: self._trackio.Table(columns=list(columns), data=[list(row) for row in rows])})

    def picture(self, update: int, name: str, png: bytes) -> None:
        """A picture."""
        import io

        from PIL import Image

        self._log(update, {name: self._trackio.Image(Image.open(io.BytesIO(png)))})

    def files(self, name: str, folder: Path) -> None:
        """An artifact of the kind `model`."""
        self._run.log_artifact(str(folder), name=f"{name}-{self._run.name}", type="model")

    def end(self, *, well: bool) -> None:
        """What waits is written."""
        self._run.finish()

    def _log(self, update: int, values: dict[str, Any]) -> None:
        if any((name, update) not in self._has for name in values):
            self._run.log(values, step=update)


def open_tracker(run: TrackedRun) -> Trackio:
    """Go on with the run of the same name, or begin it."""
    return Trackio(run)
