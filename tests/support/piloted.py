"""A whole pilot, and a whole training, in this process: what would be started as processes is called instead."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest
    from tiny import Tiny

    from testigo.rules import Verdict


def in_this_process(patch: pytest.MonkeyPatch) -> None:
    """So that a pilot takes a second."""
    from testigo.model import control
    from testigo.pilot import export
    from testigo.training import worker as training
    from testigo.training.launchers import local

    def finish(module: str, spec: str, *, log: Path) -> None:
        assert module == "testigo.training.worker"
        training.run(Path(spec), stop=threading.Event())

    def reproduce(folder: Path, bench: Any) -> dict[str, Any]:
        settings = bench.settings
        return control.check_export(folder, settings.model.base, relative_to=settings.folder).to_json()

    patch.setattr(local, "finish", finish)
    patch.setattr(export, "_in_a_fresh_process", reproduce)


def pilot(tiny: Tiny, folder: Path, changes: Mapping[str, Any] | None = None) -> Verdict:
    """The pilot of the tiny campaign with these changes."""
    from testigo.pilot import worker
    from testigo.pilot.verdict import judge_pilot

    spec = tiny.spec(changes)
    worker.run(spec.write(folder))
    return judge_pilot(folder, spec.settings())


def train(tiny: Tiny, folder: Path, changes: Mapping[str, Any] | None = None) -> str:
    """The run itself, to its end; the state that it ended in."""
    from testigo.training import worker

    return str(worker.run(tiny.spec(changes).write(folder), stop=threading.Event()).state)
