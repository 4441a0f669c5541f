"""From the campaign to its task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from testigo.errors import CampaignError
from testigo.tasks.chat import Chat
from testigo.tasks.classification import Classification, ImageClassification
from testigo.tasks.extraction import Extraction
from testigo.tasks.generation import Generation
from testigo.tasks.schema import read_schema
from testigo.tasks.task import Task
from testigo.tasks.tool_calling import ToolCalling

if TYPE_CHECKING:
    from testigo.campaign import Campaign


def task_for(campaign: Campaign, labels: tuple[str, ...] = ()) -> Task:
    """The task of a campaign, with its schema read and checked.

    Parameters
    ----------
    labels
        The names of the classes, where the campaign leaves them to its rows; see `labels_of`.

    Raises
    ------
    CampaignError
        When the schema cannot be used, or the system message asks for a `{schema}` that the campaign does not name.
    """
    asked = campaign.task
    if asked.kind == "classification":
        return Classification(asked.input, asked.target, asked.labels or labels, asked.answer, asked.system)
    if asked.kind == "image-classification":
        return ImageClassification(asked.input, asked.target, asked.labels or labels)
    if asked.kind == "chat":
        return Chat(asked.input, asked.system)
    if asked.kind == "tool-calling":
        return ToolCalling(asked.input, asked.target, asked.tools or "", asked.system, asked.order)
    if asked.kind == "generation":
        return Generation(asked.input, asked.target, asked.system)
    schema = None if asked.schema_file is None else read_schema(campaign.folder / asked.schema_file)
    if schema is None and asked.system is not None and "{schema}" in asked.system:
        raise CampaignError(
            expected="`task.schema`, since `task.system` holds {schema}",
            found="no schema",
            where=str(campaign.path),
            action="add `schema: FILE` to `task`, or remove {schema} from `system`",
        )
    return Extraction(asked.input, asked.target, schema, asked.system)


def is_answered_by_head(campaign: Campaign) -> bool:
    """Whether a class head answers, and no text is written."""
    task = campaign.task
    return task.kind == "image-classification" or (task.kind == "classification" and task.answer == "head")
