"""The campaign as a frozen value, and its identity."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, PrivateAttr, ValidationError

from testigo.campaign.document import Document
from testigo.campaign.sections import (
    Base,
    Budget,
    Data,
    Encoding,
    Evaluation,
    GuardTask,
    Hypothesis,
    Machine,
    Rules,
    Section,
    Task,
    Text,
    Training,
    Variant,
)
from testigo.campaign.tracking import Track
from testigo.errors import CampaignError

if TYPE_CHECKING:
    from testigo.campaign.records import ComparisonRecord, Runs

DEFINES_NO_RESULT = (
    "campaign", "question", "language", "track", "budget", "machine.launcher", "machine.parallel", "data.engine",
    "data.unit",
)  # fmt: skip
"""Keys that can change without changing any result: they are no part of the identity."""
PROMISED_BESIDE = ("question", "budget")
"""Those among them that are frozen all the same: what was asked before the compute, and what might be spent on it."""


class Campaign(Section):
    """A whole campaign file. The file as written is the control; everything else follows from it."""

    name: str = Field(alias="campaign", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
    """The campaign's name. Its workspace is the folder `NAME.testigo`."""
    question: Text
    """What the campaign is to answer, in words. It is frozen at registration, and the report prints it."""
    task: Task
    """What the model has to do with a row."""
    hypothesis: Hypothesis
    """What is claimed, before any compute."""
    data: Data
    """Where the rows are and how they are prepared."""
    model: Base
    """The model to start from, and what is trained of it."""
    encoding: Encoding = Encoding()
    """How rows become tokens."""
    training: Training
    """The updates."""
    evaluation: Evaluation = Evaluation()
    """How outputs are made."""
    guards: tuple[GuardTask, ...] = Field(default=(), strict=False)
    """Other tasks that must not get worse, each with rows of its own: what fine-tuning forgets."""
    variants: tuple[Variant, ...] = Field(default=(), strict=False)
    """Explained changes against the control, each a run of its own for every seed."""
    seeds: tuple[Annotated[int, Field(ge=0, le=2**32 - 1)], ...] = Field(default=(0,), strict=False, min_length=1)
    """Each run is repeated with each seed, and all are reported."""
    machine: Machine = Machine()
    """What the campaign runs on."""
    budget: Budget | None = None
    """What may be spent."""
    track: Track = Track()
    """Where curves are also written while a run goes on: a list of names, or of names with options."""
    language: Literal["en", "es", "pt", "fr"] = "en"
    """The report's language."""
    rules: Rules = Field(
        default=Rules(),
        json_schema_extra={
            "anyOf": [
                {"type": "object", "additionalProperties": {"type": "object"}},
                {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "object"}]}},
            ]
        },
    )
    """Limits by rule code, such as `{T104: {spreads: 6}}`; or a list of files with own rules and such limits."""
    waive: dict[str, Text] = Field(default_factory=dict)
    """Code of a rule -> the reason why its finding does not stop the campaign. The report's first page prints it."""

    _document: Document = PrivateAttr()
    _contents: Mapping[str, str] = PrivateAttr(default_factory=dict)

    @classmethod
    def of(cls, document: Document) -> Campaign:
        """The campaign that a document without faults says, with the hashes of the files it names."""
        campaign = cls.model_validate(document.data)
        campaign._document = document
        schemas = [task.schema_file for task in (campaign.task, *(guard.task for guard in campaign.guards))]
        files = [*campaign.rules.files, *filter(None, schemas)]
        campaign._contents = {f: _content_hash(campaign.folder / f) for f in files if (campaign.folder / f).is_file()}
        return campaign

    @classmethod
    def from_json(cls, plain: Mapping[str, Any], *, folder: Path) -> Campaign:
        """What `to_json` gave, as a campaign again; `folder` is where its relative names start from.

        Raises
        ------
        CampaignError
            These are not a campaign's settings.
        """
        document = Document(folder / "campaign.yaml", "", dict(plain))
        try:
            return cls.of(document)
        except (ValidationError, OSError, ValueError) as error:
            raise CampaignError(
                expected="the settings of a campaign as they were written",
                found=str(error),
                where=str(folder),
                action="start again from the campaign file",
            ) from error

    @property
    def runs(self) -> Runs:
        """The runs of the workspace `NAME.testigo` in the current folder, for notebooks.

        Raises
        ------
        WorkspaceError
            When the campaign was not begun here; `testigo.runs(campaign, workspace)` reads another folder.
        """
        from testigo.campaign.records import runs_of
        from testigo.campaign.workspace import Workspace

        return runs_of(Workspace.find(self.path))

    @property
    def comparison(self) -> ComparisonRecord | None:
        """The last comparison in that workspace; None before the first, and when a run that it rests on is invalid."""
        from testigo.campaign.records import comparison_of
        from testigo.campaign.workspace import Workspace

        return comparison_of(Workspace.find(self.path))

    def to_json(self) -> dict[str, Any]:
        """All settings as plain data, defaults written out."""
        plain: dict[str, Any] = self.model_dump(mode="json", by_alias=True)
        return plain

    @property
    def path(self) -> Path:
        """The campaign file. No part of the identity."""
        return self._document.path

    @property
    def text(self) -> str:
        """The campaign file as it was read; empty where the campaign was made of plain data."""
        return self._document.text.replace("\r\n", "\n").replace("\r", "\n")

    @property
    def as_written(self) -> Mapping[str, Any]:
        """The keys that the file sets, without defaults."""
        keys: Mapping[str, Any] = self._document.data
        return keys

    @property
    def folder(self) -> Path:
        """The campaign file's folder: the files that it names are relative to it."""
        return self._document.path.resolve().parent

    def on_guard(self, guard: GuardTask) -> Campaign:
        """This campaign with a guard's task in place of its own: the same base, encoding and precision."""
        own = self.model_copy(
            update={
                "task": guard.task,
                "evaluation": self.evaluation.model_copy(update={"max_new_tokens": guard.max_new_tokens}),
            }
        )
        own._document, own._contents = self._document, self._contents
        return own

    def canonical(self) -> dict[str, Any]:
        """All that defines results, with defaults written out and files replaced by the hash of their content."""
        plain = self.model_dump(mode="json", by_alias=True)
        for dotted in DEFINES_NO_RESULT:
            section, _, key = dotted.rpartition(".")
            del (plain[section] if section else plain)[key]
        if plain["task"]["schema"] is not None:
            plain["task"]["schema"] = self._content_of(plain["task"]["schema"])
        for guard in plain["guards"]:
            if guard["task"]["schema"] is not None:
                guard["task"]["schema"] = self._content_of(guard["task"]["schema"])
        plain["rules"]["files"] = [self._content_of(file) for file in plain["rules"]["files"]]
        canonical: dict[str, Any] = _canonical(plain)
        return canonical

    def promised_beside(self) -> dict[str, Any]:
        """What was said before the compute and defines no result: the question, white space aside, and the budget."""
        budget = self.budget.model_dump(mode="json", by_alias=True) if self.budget else None
        return {"question": " ".join(self.question.split()), "budget": _canonical(budget)}

    def identity(self) -> str:
        """The sha256 of the canonical form, in hex: two files with the same identity are the same campaign."""
        return digest(self.canonical())

    def _content_of(self, file: str) -> str:
        if file not in self._contents:
            raise CampaignError(
                expected=f"the file {file}, which the campaign names",
                found="it was not there when the campaign was read",
                where=str(self.folder),
                action="put it back and read the campaign again",
            )
        return self._contents[file]


def _content_hash(path: Path) -> str:
    """Of a JSON file the hash of what it says, white space aside; of any other file of its bytes."""
    raw = path.read_bytes()
    if path.suffix == ".json":
        raw = json.dumps(json.loads(raw), ensure_ascii=True, separators=(",", ":")).encode()
    return f"sha256:{hashlib.sha256(raw).hexdigest()}"


def digest(plain: Any) -> str:
    """Sha256, in hex, of plain data written as canonical JSON."""
    text = json.dumps(plain, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _canonical(value: Any) -> Any:
    """1 and 1.0 are one number; everything else stays."""
    if isinstance(value, dict):
        return {key: _canonical(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_canonical(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value
