"""dossier.json as another version wrote it: what that one did not record, and what this one does not know, is no fault.

Which fields a version had is told by the schema that it put beside. A field that this schema has and dossier.json lacks
was taken out of it, and that is a fault.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from testigo.dossier import twin
from testigo.dossier.files import read_json
from testigo.dossier.record import Record
from testigo.errors import WorkspaceError

_CANNOT_BE_NOTHING = object()


class NotAsItsSchemaSays(ValueError):
    """A field that the schema beside dossier.json has was taken out of it, or another was put in."""


@dataclass(frozen=True)
class Told:
    """A record, the places that its version did not fill, and those of which this version knows nothing."""

    record: Record
    lacking: tuple[str, ...]
    unknown: tuple[str, ...]

    @property
    def is_of_another_version(self) -> bool:
        """Whether it has other fields than this version writes."""
        return bool(self.lacking or self.unknown)


def read(folder: Path) -> Told:
    """The record of a dossier.

    Raises
    ------
    OSError, ValueError
        When there is none, or it is none; `NotAsItsSchemaSays` where fields were taken out or put in.
    WorkspaceError
        When its version did not record what no dossier of this version can be without.
    """
    text = (folder / "dossier.json").read_text(encoding="utf-8")
    document = json.loads(text)
    if not isinstance(document, dict):
        raise ValueError("no object")
    seen = _Seen(read_json(folder / twin.SCHEMA_FILE.name) or {})
    seen.walk(document, Record, "")
    if seen.needed:
        version = str(document.get("testigo_version") or "of another number")[:20]
        raise WorkspaceError(
            expected="a dossier with all that this version reads",
            found=f"Testigo {version} wrote it, and recorded no {', '.join(seen.needed[:8])}",
            where=str(folder / "dossier.json"),
            action="verify it with the version of Testigo that wrote it",
        )
    lacking, unknown = tuple(seen.lacking), tuple(seen.unknown)
    return Told(twin.from_json(json.dumps(document) if lacking or unknown else text), lacking, unknown)


def read_record(folder: Path) -> Record:
    """The record of a dossier; what its version did not record is empty. Raises as `read`."""
    return read(folder).record


def as_written(folder: Path, told: Told) -> bool:
    """Whether the text is the one that a version writes for these values."""
    text = (folder / "dossier.json").read_text(encoding="utf-8")
    return text == (twin.text_of(json.loads(text)) if told.is_of_another_version else twin.to_json(told.record))


def places(found: tuple[str, ...]) -> str:
    """Places without the numbers of entries, each once."""
    return ", ".join(dict.fromkeys(re.sub(r"\[\d+\]", "", place) for place in found))


@dataclass
class _Seen:
    """A walk through a document: what lacks is filled with nothing, what is more is taken out, both are noted."""

    schema: Mapping[str, Any]
    lacking: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    needed: list[str] = field(default_factory=list)

    def walk(self, value: Any, hint: Any, where: str) -> None:
        if is_dataclass(hint) and isinstance(hint, type) and isinstance(value, dict):
            self._fields(value, hint, where)
        elif get_origin(hint) is tuple and isinstance(value, list):
            for number, item in enumerate(value):
                self.walk(item, get_args(hint)[0], f"{where}[{number}]")
        elif get_origin(hint) in (Union, UnionType) and value is not None:
            for one in get_args(hint):
                self.walk(value, one, where)

    def _fields(self, value: dict[str, Any], of: type, where: str) -> None:
        hints, had = get_type_hints(of), self._had(of)
        own = {one.name for one in fields(of)}
        for name in sorted(own - value.keys()):
            place, nothing = (f"{where}.{name}" if where else name), _nothing(hints[name])
            if had is None or name in had:
                raise NotAsItsSchemaSays(f"{place} is missing")
            if nothing is _CANNOT_BE_NOTHING:
                self.needed.append(place)
            else:
                self.lacking.append(place)
                value[name] = nothing
        for name in sorted(value.keys() - own):
            place = f"{where}.{name}" if where else name
            if had is None or name not in had:
                raise NotAsItsSchemaSays(f"{place} is no field of it")
            self.unknown.append(place)
            del value[name]
        for name in own & value.keys():
            self.walk(value[name], hints[name], f"{where}.{name}" if where else name)

    def _had(self, of: type) -> Mapping[str, Any] | None:
        """The fields that the version had which wrote the schema; None where it does not tell."""
        definitions = self.schema.get("$defs")
        part = self.schema if of is Record else definitions.get(of.__name__) if isinstance(definitions, dict) else None
        found = part.get("properties") if isinstance(part, Mapping) else None
        return found if isinstance(found, Mapping) else None


def _nothing(hint: Any) -> Any:
    """What says that a field was not recorded."""
    if get_origin(hint) in (Union, UnionType) and type(None) in get_args(hint):
        return None
    if hint is str:
        return ""
    return [] if get_origin(hint) is tuple else {} if get_origin(hint) is dict else _CANNOT_BE_NOTHING
