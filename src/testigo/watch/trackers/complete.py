"""``python -m testigo.watch.trackers.complete FILE``: a finished run's trackers get what they lack, and files.

A process of its own: a tracker that hangs holds nobody up for longer than the time that it is given.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from testigo.campaign import Campaign
from testigo.disk import write_json
from testigo.errors import exit_code_of
from testigo.watch.trackers import relay, require, tracked_run
from testigo.watch.trackers.picture import curves
from testigo.watch.trackers.relay import GRACE_SECONDS
from testigo.watch.trackers.tracker import lines_of, write_told

LONGEST_SECONDS = 300.0
"""An adapter of some hundred megabytes on its way to a server. One that takes no line is given up long before."""


@dataclass(frozen=True)
class Completion:
    """What is to be told.

    Attributes
    ----------
    names
        The trackers.
    files
        Name -> folder of what came of the run, such as the exported adapter.
    """

    campaign: dict[str, Any]
    campaign_folder: str
    folder: str
    run: str
    variant: str
    seed: int
    well: bool
    names: tuple[str, ...]
    files: dict[str, str]

    def write(self, path: Path) -> Path:
        """As one JSON file."""
        write_json(path, asdict(self))
        return path


def complete(wanted: Completion) -> None:
    """Each tracker once more from the journal, then the files, then the run's end."""
    campaign = Campaign.from_json(wanted.campaign, folder=Path(wanted.campaign_folder))
    require(campaign)
    folder = Path(wanted.folder)
    lines, until = lines_of(folder), time.monotonic() + LONGEST_SECONDS
    relays = []
    for name in wanted.names:
        run = tracked_run(name, campaign, folder, run=wanted.run, variant=wanted.variant, seed=wanted.seed)
        files = {kind: Path(place) for kind, place in wanted.files.items()}
        relays.append(relay(name, run, lines, files))
    png = curves(lines) if relays else b""
    for own in relays:
        own.end(well=wanted.well, png=png)
    told = {own.name: own.wait(until, silence_seconds=GRACE_SECONDS) for own in relays}
    write_told(folder, told)


def main(arguments: list[str]) -> int:
    """Read what is wanted and do it."""
    plain = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    return exit_code_of(lambda: complete(Completion(**plain | {"names": tuple(plain["names"])})))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
