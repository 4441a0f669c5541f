"""`track:`: where curves are also written, and how a list of names and options becomes sections with their marks."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, Literal

from testigo.campaign.document import Document, Mark, Place
from testigo.campaign.fault import Fault
from testigo.campaign.sections import Section, Text

Name = Literal["tensorboard", "wandb", "mlflow", "trackio"]
TRACKERS: tuple[Name, ...] = ("tensorboard", "wandb", "mlflow", "trackio")


class Tracked(Section):
    """What every tracker has."""

    rows: bool = False
    """Also what rows hold: outputs and targets of the fixed prompts, texts of findings, the system prompt."""


class TensorBoard(Tracked):
    """Event files in the run's folder, `tensorboard/`."""


class Wandb(Tracked):
    """Weights & Biases. The key comes from `wandb login` or WANDB_API_KEY, never from this file."""

    project: Text | None = None
    """`null`: the campaign's name."""
    entity: Text | None = None
    """The team or user. `null`: the one that is logged in."""
    mode: Literal["online", "offline"] = "online"
    """`offline` writes the run's folder `wandb/`; `wandb sync` sends it later."""


class Mlflow(Tracked):
    """MLflow. User and password of a server come from MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD."""

    uri: Text | None = None
    """A server, or `sqlite:///FILE`. `null`: MLFLOW_TRACKING_URI, or `mlflow.db` beside the campaign file."""
    experiment: Text | None = None
    """`null`: the campaign's name."""


class Trackio(Tracked):
    """trackio's local database (TRACKIO_DIR); `trackio show` and `trackio sync` read it."""

    project: Text | None = None
    """`null`: the campaign's name."""


class Track(Section):
    """Where curves are also written while a run goes on. Each tracker is an extra: `pip install 'testigo[wandb]'`."""

    tensorboard: TensorBoard | None = None
    """Event files."""
    wandb: Wandb | None = None
    """Weights & Biases."""
    mlflow: Mlflow | None = None
    """MLflow."""
    trackio: Trackio | None = None
    """trackio."""

    @classmethod
    def filled(cls, data: Any) -> Any:
        """A list of names and of mappings from a name to its options, as one mapping."""
        if not isinstance(data, list | tuple):
            return data
        whole: dict[str, Any] = {}
        for item in data:
            whole |= {item: {}} if isinstance(item, str) else {name: own or {} for name, own in dict(item).items()}
        return whole

    @property
    def declared(self) -> dict[str, Tracked]:
        """The trackers that the campaign names, with their options."""
        return {name: own for name in TRACKERS if (own := getattr(self, name)) is not None}


_FORM = "a list of trackers, each a name or `NAME: {…}`: " + ", ".join(f"`{name}`" for name in TRACKERS)


def with_plain_track(document: Document) -> tuple[Document, list[Fault]]:
    """The document with `track:` as one mapping from names to options, and what is wrong with its form."""
    track = document.data.get("track") if isinstance(document.data, dict) else None
    if track is None:
        return document, []
    whole: dict[str, Any] = {}
    faults: list[Fault] = []
    keys, values = dict(document.keys), dict(document.values)

    def place(name: str, options: Any, old: Place) -> None:
        if name in whole:
            faults.append(Fault(old, "each tracker once", f"`{name}` again", "remove it", "key"))
            return
        whole[name] = {} if options is None else options
        for marks in (keys, values):
            for known, mark in list(marks.items()):
                if known[: len(old)] == old:
                    marks["track", name, *known[len(old) :]] = mark
        keys.setdefault(("track", name), values.get(old, Mark(0, 0)))

    if not isinstance(track, list | dict):
        return document, [Fault(("track",), _FORM, f"`{track}`", f"write `track: [{track}]`")]
    for n, item in enumerate(track if isinstance(track, list) else [track]):
        start: Place = ("track", n) if isinstance(track, list) else ("track",)
        if isinstance(item, str):
            place(item, None, start)
        elif isinstance(item, dict):
            for name, options in item.items():
                place(name, options, (*start, name))
        else:
            faults.append(Fault(start, _FORM, f"`{item}`", "write a tracker's name"))
    data = {**copy.deepcopy(document.data), "track": whole}
    return replace(document, data=data, keys=keys, values=values), faults
