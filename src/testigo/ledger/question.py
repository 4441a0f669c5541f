"""A question that stands at a terminal, told to whoever looks at the workspace from elsewhere."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from testigo.disk import write_json
from testigo.ledger.process import ProcessMark, process_is_alive, this_process

SAMPLES = "samples"
"""Whether the samples show what the model should see."""
OPENING = "opening"
"""Whether the sealed test is opened."""
IN_WORDS = {
    SAMPLES: "waits for your confirmation of the samples at its terminal",
    OPENING: "waits for your confirmation, at its terminal, that the sealed test is opened",
}
QUESTION = "question.json"


@contextlib.contextmanager
def asking(root: Path, about: str) -> Iterator[None]:
    """While a person is asked: a file of the workspace says so, bound to this process, and goes with the answer."""
    path = root / QUESTION
    with contextlib.suppress(OSError):  # a disk without room keeps nobody from being asked
        write_json(path, {"about": about, "process": asdict(this_process())})
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def question_in(root: Path) -> str:
    """What a process of the workspace asks at this moment; "" for nothing, and where the one that asked is gone."""
    try:
        told = json.loads((root / QUESTION).read_text(encoding="utf-8"))
        about, mark = str(told["about"]), ProcessMark(**told["process"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return about if about in IN_WORDS and process_is_alive(mark) is not False else ""
