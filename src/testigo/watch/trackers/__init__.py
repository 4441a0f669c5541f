"""Where curves also go: one tracker a file, behind one protocol.

A run is one run at each tracker, with each update once, however often it was interrupted: its id is kept in its folder
(`trackers.json`), and its journal is the truth from which a tracker is filled. None stops or slows the training: each
works in a thread behind a queue with a bound (`relay`). What is told is in `telling`: never a secret, and contents of
rows only where the campaign says `rows: true`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from testigo.campaign import Campaign
from testigo.errors import MissingExtra
from testigo.ray_cluster import SILENT
from testigo.rules import Finding, judge
from testigo.watch.trackers.delivery import Delivery, tracker_heard_everything
from testigo.watch.trackers.picture import curves
from testigo.watch.trackers.relay import GRACE_SECONDS, Open, Relay
from testigo.watch.trackers.telling import Line, settings_of
from testigo.watch.trackers.tracker import Told, TrackedRun, id_of, lines_of, write_told

__all__ = ["Followers", "Told", "follow", "require", "tracked_run", "tracker_of"]
_SHOWS = {
    "tensorboard": "writes TensorBoard event files",
    "wandb": "writes to Weights & Biases",
    "mlflow": "writes to MLflow",
    "trackio": "writes to trackio",
}
_BROKEN_OFF_SECONDS = 5.0


def require(campaign: Campaign) -> None:
    """Refuse a campaign whose trackers are not installed, before anything is trained.

    Raises
    ------
    MissingExtra
        For the first library that is missing.
    """
    for name in campaign.track.declared:
        if find_spec(name) is None:
            raise MissingExtra(name, name, _SHOWS[name])


def tracker_of(name: str) -> Open:
    """How the tracker of a name is opened; its library is imported only then."""
    opened: Open = import_module(f"testigo.watch.trackers.{name}").open_tracker
    return opened


def relay(name: str, run: TrackedRun, before: Sequence[Line], files: Mapping[str, Path] | None = None) -> Relay:
    """The tracker of a name in its own thread, told of the lines so far."""
    abandon: Callable[[], None] = getattr(import_module(f"{__name__}.{name}"), "abandon", _nothing)
    return Relay(name, tracker_of(name), run, before, files=files, abandon=abandon)


def _nothing() -> None:
    """Most clients hold nobody up."""


def tracked_run(name: str, campaign: Campaign, folder: Path, *, run: str, variant: str, seed: int) -> TrackedRun:
    """What the tracker of a name may know of a run."""
    own = campaign.track.declared[name]
    id = id_of(folder)
    return TrackedRun(
        id=id,
        name=f"{variant}-{seed}-{id[:4]}",
        campaign=campaign.name,
        folder=folder,
        home=campaign.folder,
        settings=settings_of(campaign, rows=own.rows, run=run, variant=variant, seed=seed),
        options=own.model_dump(),
    )


class Followers:
    """All trackers of one run while it goes on."""

    def __init__(self, relays: Sequence[Relay], folder: Path) -> None:
        self.relays, self._folder = tuple(relays), folder

    def __call__(self, line: Line) -> None:
        """Hand a line of the journal to each."""
        for relay in self.relays:
            relay(line)

    def __enter__(self) -> Followers:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_of: object) -> None:
        """Where the run breaks off, each hears that it ended and holds up the exit no longer than a few seconds."""
        if kind is not None:
            with suppress(OSError):  # what broke the run off is what is told
                self._end(b"", well=False, grace_seconds=_BROKEN_OFF_SECONDS)

    def end(self, *, well: bool, grace_seconds: float = GRACE_SECONDS) -> dict[str, dict[str, Any]]:
        """Let each end; what came of it by name, kept in the run's folder."""
        if not self.relays:
            return {}
        return self._end(curves(lines_of(self._folder)), well=well, grace_seconds=grace_seconds)

    def _end(self, png: bytes, *, well: bool, grace_seconds: float) -> dict[str, dict[str, Any]]:
        for relay in self.relays:
            relay.end(well=well, png=png)
        until = time.monotonic() + grace_seconds
        told = {relay.name: relay.wait(until) for relay in self.relays}
        if told:
            write_told(self._folder, told)
        return {name: asdict(own) for name, own in told.items()}


def findings_of(told: dict[str, dict[str, Any]]) -> tuple[Finding, ...]:
    """What is to be said of trackers that did not hear everything."""
    return judge([tracker_heard_everything], [Delivery(name, **own) for name, own in told.items()]).findings


def follow(campaign: Campaign, folder: Path, *, run: str, variant: str, seed: int) -> Followers:
    """The campaign's trackers, each told of the journal's lines so far and then of each new one.

    Raises
    ------
    MissingExtra
        When a tracker's library is not installed.
    """
    require(campaign)
    if not campaign.track.declared:
        return Followers((), folder)
    os.environ.update(SILENT)
    before = lines_of(folder)
    relays = [
        relay(name, tracked_run(name, campaign, folder, run=run, variant=variant, seed=seed), before)
        for name in campaign.track.declared
    ]
    return Followers(relays, folder)
