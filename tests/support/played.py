"""A process that follows a run as the worker does: it writes a journal line by line and tells the trackers of each."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

PROMPT_SIGN, OUTPUT_SIGN, ROW_SIGN = "PROMPT-SIGN-7", "OUTPUT-SIGN-7", "ROW-SIGN-7"
"""What nobody may find at a tracker that was not to get contents of rows."""


def line_of(update: int) -> dict[str, Any]:
    """An update's line as the loop writes it."""
    return {
        "update": update, "loss": 3.0 / update, "learning_rate": 1e-3, "gradient_norm": 1.0, "clipped": False,
        "supervised_tokens": 40, "tokens": 80, "examples": 4, "seconds": 0.01, "resident_bytes": 1 << 30,
        "rows": [ROW_SIGN], "row_losses": {ROW_SIGN: 3.0 / update}, "skipped": False, "epoch": update / 15,
    }  # fmt: skip


def play(campaign: Path, folder: Path, first: int, last: int, *, ends: bool) -> None:
    """Updates `first` to `last` with a validation every five; then the end, or waiting to be killed."""
    from testigo.campaign import load
    from testigo.training.journal import Journal
    from testigo.watch.trackers import follow

    journal = Journal(folder)
    followers = follow(load(campaign), folder, run="control-abc", variant="control", seed=0)
    journal.listeners.append(followers)
    for update in range(first, last + 1):
        journal.step(line_of(update))
        if update % 5 == 0:
            sample = {"update": update, "row": ROW_SIGN, "output": OUTPUT_SIGN, "target": "x"}
            finding = {"update": update, "code": "T104", "name": "spike", "severity": "warn", "observed": ROW_SIGN}
            for name, own in (("samples", sample), ("findings", finding)):
                with (folder / f"{name}.jsonl").open("a", encoding="utf-8") as file:
                    file.write(json.dumps(own) + "\n")
            journal.step({"update": update, "validation_loss": 2.0 / update, "validation_tokens": 9, "seconds": 0.1})
        time.sleep(0.02)
    if ends:
        print(json.dumps(followers.end(well=True, grace_seconds=300.0)), flush=True)
        return
    print("played", flush=True)
    time.sleep(600)


if __name__ == "__main__":
    campaign, folder, first, last, ends = sys.argv[1:]
    play(Path(campaign), Path(folder), int(first), int(last), ends=ends == "end")
