"""Weights & Biases, online or offline.

Online a run of the same id goes on at the server, and steps that it has are not sent again. Offline, W&B cannot go on
with a run that it wrote before: the run's folder `wandb/` is written anew from the journal, so that `wandb sync` finds
one run.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from testigo.watch.trackers.relay import GRACE_SECONDS
from testigo.watch.trackers.tracker import TrackedRun

_SERVICE = "wandb-core"
"""The process that the client starts, one for this process, and leaves to talk to the server."""


class Wandb:
    """One row of the history an update: what its validation adds is held together with it."""

    def __init__(self, run: TrackedRun) -> None:
        import wandb

        offline = run.options["mode"] == "offline"
        folder = run.folder / "wandb"
        if offline:
            shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(exist_ok=True)  # where it is missing, W&B writes to the machine's temporary folder
        # Nothing of the machine, the code, the command line or the console is sent: they may hold anything.
        quiet = wandb.Settings(
            console="off", silent=True, disable_git=True, disable_code=True, x_disable_meta=True, x_disable_stats=True,
            x_disable_machine_info=True, x_save_requirements=False, init_timeout=GRACE_SECONDS,
            finish_timeout=GRACE_SECONDS, root_dir=str(run.folder), sync_tensorboard=False,
        )  # fmt: skip
        self._wandb = wandb
        self._run: Any = wandb.init(
            id=run.id, name=run.name, project=run.options["project"] or run.campaign, entity=run.options["entity"],
            dir=str(run.folder), mode=run.options["mode"], resume=None if offline else "allow", settings=quiet,
            group=str(run.settings.get("variant", "")), config=dict(run.settings),
        )  # fmt: skip
        self._first = 0 if offline else int(self._run.starting_step)
        self._row: dict[str, Any] = {}
        self._update = -1

    def values(self, update: int, values: Mapping[str, float]) -> None:
        """Part of the update's row."""
        self._hold(update, values)

    def text(self, update: int, name: str, text: str) -> None:
        """A finding's words in its update's row, and in the run's summary."""
        self._run.summary[name] = text

    def table(self, update: int, name: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """A table in its update's row."""
        self._hold(update, {name: self._wandb.Table(columns=list(columns), data=[list(row) for row in rows])})

    def picture(self, update: int, name: str, png: bytes) -> None:
        """A picture in the last row."""
        from PIL import Image

        image = self._wandb.Image(Image.open(io.BytesIO(png)))
        self._hold(max(self._update, update), {name: image})

    def files(self, name: str, folder: Path) -> None:
        """An artifact of the kind `model`."""
        self._send()
        artifact = self._wandb.Artifact(f"{name}-{self._run.id}", type="model")
        artifact.add_dir(str(folder))
        self._run.log_artifact(artifact)

    def end(self, *, well: bool) -> None:
        """The last row, and the run's end."""
        self._send()
        self._run.finish(exit_code=0 if well else 1)

    def _hold(self, update: int, values: Mapping[str, Any]) -> None:
        if update != self._update:
            self._send()
            self._update = update
        self._row |= values

    def _send(self) -> None:
        if self._row and self._update >= self._first:
            self._run.log(self._row, step=self._update)
        self._row = {}


def open_tracker(run: TrackedRun) -> Wandb:
    """Go on with the run of the same id, or begin it."""
    return Wandb(run)


def abandon() -> None:
    """End W&B's own process at once, now and where it was started again, at the exit.

    Otherwise the client waits for it at the exit for as long as it tries to reach a server: minutes, whatever its
    settings say.
    """
    _kill_service()
    atexit.register(_leave)


def _kill_service() -> None:
    for process in psutil.Process().children():
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.name() == _SERVICE:
                process.kill()


def _leave() -> None:
    _kill_service()
    with contextlib.suppress(Exception, SystemExit):  # it finds its process gone, and takes its own hook away
        import wandb

        wandb.teardown()
