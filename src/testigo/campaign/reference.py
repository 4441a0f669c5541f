"""The campaign file described for editors (JSON Schema) and for readers (Markdown), both from the fields themselves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from testigo.campaign.campaign import DEFINES_NO_RESULT, PROMISED_BESIDE, Campaign
from testigo.campaign.metrics import METRICS
from testigo.campaign.tracking import TRACKERS
from testigo.campaign.variants import MAY_BE_SET
from testigo.campaign.wording import expects, keys_of, section_of

SCHEMA_FILE = Path(__file__).with_name("campaign.schema.json")
"""The committed JSON Schema."""


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a campaign file (draft 2020-12), for editors that complete and check YAML."""
    schema = Campaign.model_json_schema(by_alias=True)
    rules = schema["properties"]["rules"]
    for key in ("$ref", "default"):
        rules.pop(key, None)
    schema["$defs"].pop("Rules", None)
    track = schema["properties"]["track"]
    whole = {"$ref": track.pop("$ref")} if "$ref" in track else track.pop("allOf")[0]
    track.pop("default", None)
    track["anyOf"] = [{"type": "array", "items": {"anyOf": [{"enum": [*TRACKERS]}, whole]}}, whole]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def json_schema_text() -> str:
    """The JSON Schema as it is committed."""
    return json.dumps(json_schema(), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def campaign_reference() -> str:
    """Every key of the campaign file, as a Markdown page."""
    parts = [_INTRODUCTION, _table(Campaign, "")]
    for key, model in _sections(Campaign, ""):
        parts += [f"## `{key}`\n\n{(model.__doc__ or '').splitlines()[0]}\n", _table(model, key)]
    parts += [_metrics(), _VARIANTS, _IDENTITY]
    return "\n".join(parts)


def _sections(model: type[BaseModel], start: str) -> Iterator[tuple[str, type[BaseModel]]]:
    for key, field in zip(keys_of(model), model.model_fields.values(), strict=True):
        inside = section_of(field.annotation)
        if inside is not None and key != "rules":
            yield start + key, inside
            yield from _sections(inside, f"{start}{key}.")


def _table(model: type[BaseModel], start: str) -> str:
    lines = ["| key | takes | default | meaning |", "|---|---|---|---|"]
    for key, field in zip(keys_of(model), model.model_fields.values(), strict=True):
        if key == "track":
            takes = "a list of names, or of names with options: see [`track`](#track)"
        elif section_of(field.annotation) is not None and key != "rules":
            several = "a list, see" if "tuple" in str(field.annotation) else "see"
            takes = f"{several} [`{_dotted(start, key)}`](#{_dotted(start, key).replace('.', '')})"
            takes += " or null" if "None" in str(field.annotation) else ""
        elif key == "rules":
            takes = "a mapping, or a list of files and mappings"
        else:
            takes = expects(field.annotation, field.metadata)
        cells = (f"`{key}`", takes, _default(field), field.description or "")
        lines.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _dotted(start: str, key: str) -> str:
    return f"{start}.{key}" if start else key


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "**needed**"
    default = field.get_default(call_default_factory=True)
    if field.json_schema_extra and callable(field.json_schema_extra):
        if isinstance(default, str):
            return "**needed**, not in a chat"
        return "what is left" if default else "**needed** where a text is written"
    if isinstance(default, BaseModel):
        return "its own defaults"
    if default is None:
        return "`null`"
    if isinstance(default, tuple | dict):
        return f"`{json.dumps(default)}`"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def _metrics() -> str:
    lines = ["## Metrics\n", "| kind | metric | a row's score |", "|---|---|---|"]
    words = {"binary": "0 or 1", "bounded": "0 to 1", "corpus": "none: it belongs to all rows together"}
    lines += [f"| {kind} | `{metric}` | {words[how]} |" for kind, own in METRICS.items() for metric, how in own.items()]
    return "\n".join(lines) + "\n"


_INTRODUCTION = """# The campaign file

Written from the fields themselves by `make docs`; do not edit. `testigo new FOLDER` makes a campaign that runs.

The file is YAML 1.2: `1e-4` is a number, and `no` is a word. It is strict and closed: an unknown key, a wrong type,
a key set twice or settings that exclude each other are all reported at once, with their lines, before anything is
computed. Names of files and folders are relative to the campaign file. An editor that reads JSON Schema completes the
keys with `src/testigo/campaign/campaign.schema.json`.
"""
_VARIANTS = f"""## What a variant may set

Dotted keys in {", ".join(f"`{section}`" for section in MAY_BE_SET)}, except `model.base`.
Data, task, evaluation, seeds and budget stay the control's: otherwise the two could not be compared. A value replaces
the control's; `null` removes it, as in `set: {{training.updates: null, training.epochs: 3}}`.
"""
_IDENTITY = f"""## Identity

`Campaign.identity()` is the sha256 of the canonical form: keys sorted, defaults written out, `1e-4` and `0.0001` the
same number, the schema and the files of rules replaced by the hash of their content. Only
{", ".join(f"`{key}`" for key in DEFINES_NO_RESULT)} are left out, since they change no result.
{" and ".join(f"`{key}`" for key in PROMISED_BESIDE)} are frozen all the same when the campaign is registered: what was
asked, and what may be spent. Another wording or budget after a run began is an amendment (`testigo amend`).
"""
