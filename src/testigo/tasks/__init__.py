"""What the model has to do with a row: the prompt, the exact text to learn, and the scores of an output.

`task_for(campaign)` gives the `Task`. One file a kind: `extraction` turns a text into one JSON object, `generation` a
text into a text. Scores never raise, whatever a model writes.
"""

from __future__ import annotations

from testigo.corpus.strict_json import MAXIMUM_DEPTH, StrictJsonError, parse_strict
from testigo.tasks.chosen import task_for
from testigo.tasks.extraction import Extraction
from testigo.tasks.generation import Generation
from testigo.tasks.task import Task

__all__ = [
    "MAXIMUM_DEPTH",
    "Extraction",
    "Generation",
    "StrictJsonError",
    "Task",
    "parse_strict",
    "task_for",
]
