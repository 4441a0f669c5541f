"""The JSON Schema of a target: read once, checked, and never fetched from a network."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import SchemaError
from jsonschema.validators import validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable

from testigo.corpus.strict_json import StrictJsonError, parse_strict
from testigo.errors import CampaignError


class Schema:
    """A target's schema. `text` is the compact form that replaces `{schema}` in a prompt."""

    def __init__(self, content: dict[str, Any]) -> None:
        self.content = content
        self.text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
        make = validator_for(content, default=Draft202012Validator)
        # An empty registry: a reference to another document is an error, not a download.
        self._validator = make(content, format_checker=FormatChecker(), registry=Registry())

    def faults(self, value: Any) -> list[str]:
        """How a value violates the schema, in words, in a stable order."""
        try:
            errors = sorted(
                self._validator.iter_errors(value), key=lambda e: ([str(p) for p in e.absolute_path], e.message)
            )
        except Unresolvable as error:
            return [f"the schema refers to something that it does not hold: {error}"]
        return [f"{_place(error)}: {_short(error.message)}" for error in errors]

    def judge(self, value: Any) -> tuple[bool, bool]:
        """Whether a model's output follows the schema, and whether all required fields are there, nested ones too."""
        try:
            errors = list(self._validator.iter_errors(value))
        except Exception:
            # The schema proved itself on every target (`faults`); what still breaks the library is the output: numbers
            # out of range, patterns on endless text. Such an output is wrong, and the evaluation goes on.
            return False, False
        missing = any(error.validator == "required" or _hides_required(error) for error in errors)
        return not errors, not missing

    def in_order(self, value: Any) -> Any:
        """The value with the keys of each object in the schema's order, unknown keys after them as they came."""
        return _ordered(value, self.content, self.content)


def read_schema(path: Path) -> Schema:
    """Read and check a schema file.

    Raises
    ------
    CampaignError
        When the file is missing, is not strict JSON, is no schema, or refers to other documents.
    """

    def refuse(found: str, action: str) -> CampaignError:
        return CampaignError(
            expected="a JSON Schema that describes an object", found=found, where=str(path), action=action
        )

    try:
        content = parse_strict(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise refuse(f"{type(error).__name__}: {error.strerror}", "correct `task.schema`") from None
    except (UnicodeDecodeError, StrictJsonError) as error:
        raise refuse(f"not UTF-8 JSON: {error}", "mend the file") from None
    if not isinstance(content, dict):
        raise refuse("no JSON object", "mend the file")
    try:
        validator_for(content, default=Draft202012Validator).check_schema(content)
    except SchemaError as error:
        raise refuse(f"{_place(error)}: {_short(error.message)}", "mend the file") from None
    far = [reference for reference in _references(content) if not reference.startswith("#")]
    if far:
        raise refuse(f"a reference to another document: {far[0]}", "copy what it refers to into `$defs`")
    return Schema(content)


def _place(error: Any) -> str:
    return "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in error.absolute_path).lstrip(".") or "the whole"


def _short(message: str) -> str:
    return message if len(message) <= 160 else message[:157] + "…"


def _hides_required(error: Any) -> bool:
    """An object that had to hold required fields was replaced by something else."""
    return error.validator == "type" and isinstance(error.schema, dict) and bool(error.schema.get("required"))


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"]
        for child in schema.values():
            yield from _references(child)
    elif isinstance(schema, list):
        for child in schema:
            yield from _references(child)


def _ordered(value: Any, schema: Any, root: dict[str, Any], hops: int = 0) -> Any:
    if not isinstance(schema, dict):
        return value
    reference = schema.get("$ref")
    if isinstance(reference, str) and hops < 16:
        node: Any = root
        for step in reference.lstrip("#/").split("/") if reference != "#" else ():
            node = node.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(node, dict) else None
        return _ordered(value, node, root, hops + 1)
    if isinstance(value, list):
        return [_ordered(child, schema.get("items"), root) for child in value]
    if not isinstance(value, dict):
        return value
    known = schema.get("properties")
    known = known if isinstance(known, dict) else {}
    keys = [key for key in known if key in value] + [key for key in value if key not in known]
    return {key: _ordered(value[key], known.get(key), root) for key in keys}
