"""The JSON twin: the record for machines, and its published schema."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from testigo.dossier.files import finite
from testigo.dossier.record import FORMAT, Record

SCHEMA_FILE = Path(__file__).with_name("dossier.schema.json")


@cache
def _adapter() -> TypeAdapter[Record]:
    return TypeAdapter(Record)


def to_json(record: Record) -> str:
    """The record as JSON text: sorted keys, no NaN, the same record gives the same text."""
    return text_of(finite(asdict(record)))


def text_of(document: Any) -> str:
    """A document as the text of a JSON twin."""
    return json.dumps(document, ensure_ascii=False, allow_nan=False, sort_keys=True, indent=1) + "\n"


def from_json(text: str) -> Record:
    """The record of a JSON twin. Raises ValueError when the text is not one."""
    return _adapter().validate_json(text)


def format_of(text: str) -> object:
    """The format that a JSON twin says it was written by; ours where it says none or is no JSON at all."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return FORMAT
    return document.get("format", FORMAT) if isinstance(document, dict) else FORMAT


def json_schema() -> dict[str, Any]:
    """The schema of dossier.json, closed: every property is there and no other."""
    schema = _adapter().json_schema(mode="serialization")
    for part in (schema, *schema.get("$defs", {}).values()):
        if "properties" in part:
            part["required"] = sorted(part["properties"])
            part["additionalProperties"] = False
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "Testigo dossier"
    return schema


def schema_text() -> str:
    """The schema as the file that the package carries."""
    return json.dumps(json_schema(), ensure_ascii=False, sort_keys=True, indent=1) + "\n"
