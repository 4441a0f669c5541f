"""Classification: a text or an image gets one of a few classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Literal

from testigo.tasks.classes import class_name, class_of, target_problems
from testigo.tasks.task import Kind, input_problems, kind_of, prompt

METRICS: Mapping[str, Kind] = MappingProxyType({"accuracy": "binary", "macro_f1": "corpus"})


@dataclass(frozen=True)
class Classification:
    """A text gets one of a few classes, chosen by a head or written by a language model.

    `accuracy`: the class is the row's own. `macro_f1` belongs to all rows together, see `testigo.judgement`. A written
    answer is read by `testigo.tasks.classes.class_of`.
    """

    input: str
    target_field: str
    labels: tuple[str, ...] = ()
    by: Literal["head", "text"] = "head"
    system: str | None = None

    name: ClassVar[str] = "classification"
    metrics: ClassVar[Mapping[str, Kind]] = METRICS

    def problems(self, fields: Mapping[str, Any]) -> list[str]:
        """Missing or empty input, a target that names no class."""
        return [*input_problems(fields, self.input), *target_problems(fields, self.target_field, self.labels)]

    def messages(self, fields: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The input; before it the system message, where a text is written."""
        return prompt(self.system.strip() if self.system else None, str(fields[self.input]))

    def target(self, fields: Mapping[str, Any]) -> str:
        """The name of the row's class."""
        return class_name(fields[self.target_field]) or ""

    def label_of(self, fields: Mapping[str, Any]) -> int:
        """The number of the row's class in `labels`."""
        return self.labels.index(self.target(fields))

    def score(self, fields: Mapping[str, Any], output: str) -> dict[str, float]:
        """The metrics of one row."""
        return {"accuracy": float(self.class_of(output, fields) == self.target(fields))}

    def class_of(self, output: str, fields: Mapping[str, Any]) -> str | None:
        """The class that an output names; None when it names none. Without labels, the row's own is the only one."""
        return class_of(output, self.labels or (self.target(fields),))


@dataclass(frozen=True)
class ImageClassification:
    """An image gets one of a few classes, chosen by a head. Metrics as for `Classification`.

    The image is an object: `{"image": path}`, relative to the source's folder, or `{"bytes": base64}`.
    """

    input: str
    target_field: str
    labels: tuple[str, ...] = ()

    name: ClassVar[str] = "image-classification"
    metrics: ClassVar[Mapping[str, Kind]] = METRICS

    def problems(self, fields: Mapping[str, Any]) -> list[str]:
        """A missing image, a target that names no class."""
        problems = target_problems(fields, self.target_field, self.labels)
        value = fields.get(self.input)
        named = isinstance(value, str) and value.strip()
        if not named and not (isinstance(value, dict) and ("image" in value or "bytes" in value)):
            found = "is missing" if value is None else f"must be an image or its path, and is {kind_of(value)}"
            problems.insert(0, f"the field '{self.input}' (input) {found}")
        return problems

    def messages(self, fields: Mapping[str, Any]) -> list[dict[str, Any]]:
        """What names the image, for lists that people read; no model is asked in words."""
        value = fields[self.input]
        named = value if isinstance(value, str) else value.get("sha256") or value.get("image") or value["bytes"]
        return prompt(None, str(named))

    def target(self, fields: Mapping[str, Any]) -> str:
        """The name of the row's class."""
        return class_name(fields[self.target_field]) or ""

    def label_of(self, fields: Mapping[str, Any]) -> int:
        """The number of the row's class in `labels`."""
        return self.labels.index(self.target(fields))

    def score(self, fields: Mapping[str, Any], output: str) -> dict[str, float]:
        """The metrics of one row."""
        return {"accuracy": float(output == self.target(fields))}
