"""The live page as a process of its own, and a training that goes on while a test looks at it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PATIENCE_SECONDS = 60.0


@contextmanager
def served(*arguments: str, module: str = "testigo.page") -> Iterator[tuple[str, int, subprocess.Popen[str]]]:
    """Host and port of a server that runs as a process of its own; `told` of the process is what it printed."""
    command = [sys.executable, "-W", "error", "-m", module, *arguments, "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            told = json.loads(process.stdout.readline())
            host, port = told["address"].removeprefix("http://").split("/")[0].rsplit(":", 1)
            yield host, int(port), process
        finally:
            process.kill()


class Quiet:
    """Nobody listens to the training but the page."""

    def say(self, text: str) -> None:
        """Words of the campaign."""

    def progress(self, step: str, done: int, of: int, note: str = "") -> None:
        """How far a step is."""

    def ended(self, step: str) -> None:
        """A step goes on no more."""


def train_all(folder: Path, workspace: Path) -> None:
    """Every planned run of a campaign, one after the other, recorded as `testigo run` does it; without its gates."""
    from testigo.campaign import load, planned_runs
    from testigo.conductor import train
    from testigo.conductor.opening import opened
    from testigo.training.start import to_end

    with opened(load(folder / "campaign.yaml"), workspace, Quiet()) as grounds:
        grounds.register()
        for planned in planned_runs(grounds.campaign):
            to_end(train.train(grounds, planned))


if __name__ == "__main__":
    train_all(Path(sys.argv[1]), Path(sys.argv[2]))
