"""What the model has to do with a row: the prompt, the exact text to learn, and the scores of an output.

`task_for(campaign)` gives the `Task`. One file a kind: `extraction` turns a text into one JSON object, `generation` a
text into a text, `classification` gives a text or an image one of a few classes (`classes`: their names and order),
`chat` continues a conversation, `tool_calling` turns a request into calls (`calls`: reading and comparing them). Scores
never raise, whatever a model writes.
"""

from __future__ import annotations

from testigo.corpus.strict_json import MAXIMUM_DEPTH, StrictJsonError, parse_strict
from testigo.tasks.chat import Chat
from testigo.tasks.chosen import is_answered_by_head, task_for
from testigo.tasks.classes import labels_of
from testigo.tasks.classification import Classification, ImageClassification
from testigo.tasks.extraction import Extraction
from testigo.tasks.generation import Generation
from testigo.tasks.task import Task
from testigo.tasks.tool_calling import ToolCalling

__all__ = [
    "MAXIMUM_DEPTH",
    "Chat",
    "Classification",
    "Extraction",
    "Generation",
    "ImageClassification",
    "StrictJsonError",
    "Task",
    "ToolCalling",
    "is_answered_by_head",
    "labels_of",
    "parse_strict",
    "task_for",
]
