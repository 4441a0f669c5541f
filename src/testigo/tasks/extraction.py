"""Extraction: a text becomes one JSON object."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

from testigo.corpus.strict_json import StrictJsonError, parse_strict
from testigo.tasks.fields import equal, field_f1
from testigo.tasks.schema import Schema
from testigo.tasks.task import Kind, input_problems, kind_of, no_label, prompt


@dataclass(frozen=True)
class Extraction:
    """A text becomes one JSON object, scored by format and by content.

    `valid_json`: the whole output is one strict JSON object (`parse_strict`). `schema_valid`: and follows the schema;
    formats such as `date` count. `required_fields`: and no required field is missing, at any level. Without a schema
    the object of the target stands in for it: its keys are required. `exact_match`: the same object as the target,
    whatever the order of its keys. `field_f1`: see `testigo.tasks.fields.field_f1`; 0 for an output that is no object.
    """

    input: str
    target_field: str
    schema: Schema | None = None
    system: str | None = None

    name: ClassVar[str] = "extraction"
    labels: ClassVar[tuple[str, ...]] = ()
    metrics: ClassVar[Mapping[str, Kind]] = MappingProxyType(
        {
            "valid_json": "binary",
            "schema_valid": "binary",
            "required_fields": "binary",
            "exact_match": "binary",
            "field_f1": "bounded",
        }
    )

    def problems(self, fields: Mapping[str, Any]) -> list[str]:
        """Missing or empty input, a target that is no JSON object, each violation of the schema."""
        problems = input_problems(fields, self.input)
        if self.target_field not in fields:
            return [*problems, f"the field '{self.target_field}' (target) is missing"]
        try:
            value = self._object(fields)
        except StrictJsonError as error:
            return [*problems, f"the field '{self.target_field}' (target) must be a JSON object: {error}"]
        if self.schema is None:
            return problems
        return problems + [f"the target violates the schema: {fault}" for fault in self.schema.faults(value)]

    def messages(self, fields: Mapping[str, Any]) -> list[dict[str, Any]]:
        """System message with the compact schema in place of `{schema}`, then the input."""
        system = self.system
        if system is not None and self.schema is not None:
            system = system.replace("{schema}", self.schema.text)
        return prompt(system.strip() if system else None, str(fields[self.input]))

    def target(self, fields: Mapping[str, Any]) -> str:
        """Compact JSON, letters as they are, keys in the schema's order (without a schema: in the row's)."""
        value = self._object(fields)
        ordered = value if self.schema is None else self.schema.in_order(value)
        return json.dumps(ordered, ensure_ascii=False, separators=(",", ":"), allow_nan=False)

    def label_of(self, fields: Mapping[str, Any]) -> int:
        """There are no classes."""
        raise no_label(self)

    def score(self, fields: Mapping[str, Any], output: str) -> dict[str, float]:
        """The five metrics of one output."""
        none = dict.fromkeys(self.metrics, 0.0)
        try:
            found = parse_strict(output)
        except StrictJsonError:
            return none
        if not isinstance(found, dict):
            return none
        gold = self._object(fields)
        follows, complete = self._judge(gold, found)
        return {
            "valid_json": 1.0,
            "schema_valid": float(follows),
            "required_fields": float(complete),
            "exact_match": float(equal(gold, found)),
            "field_f1": field_f1(gold, found),
        }

    def _judge(self, gold: dict[str, Any], found: dict[str, Any]) -> tuple[bool, bool]:
        if self.schema is not None:
            return self.schema.judge(found)
        return gold.keys() == found.keys(), gold.keys() <= found.keys()

    def _object(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        value = fields[self.target_field]
        if isinstance(value, str):  # CSV and flat tables hold the object as its text
            value = parse_strict(value)
        if not isinstance(value, dict):
            raise StrictJsonError(f"it is {kind_of(value)}")
        return value
