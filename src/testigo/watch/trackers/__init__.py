"""Where curves also go: one tracker a file. None stops the training, and a resumed run stays one run there."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from testigo.watch.trackers import tensorboard

Line = Mapping[str, Any]
_OPEN = {"tensorboard": tensorboard.open_tracker}


def trackers(names: Iterable[str], run: Path, before: Iterable[Line]) -> list[Callable[[Line], None]]:
    """One listener for each declared tracker, which has already been told of the lines `before`.

    Raises
    ------
    MissingExtra
        When a tracker's library is not installed.
    """
    lines = list(before)
    return [_harmless(name, _OPEN[name](run, lines)) for name in names]


def _harmless(name: str, tell: Callable[[Line], None]) -> Callable[[Line], None]:
    """A tracker that fails is said once and left out from then on."""
    alive = True

    def listener(line: Line) -> None:
        nonlocal alive
        if not alive:
            return
        try:
            tell(line)
        except Exception as error:
            alive = False
            warnings.warn(f"the tracker {name} failed and is left out from here on: {error}", stacklevel=2)

    return listener
