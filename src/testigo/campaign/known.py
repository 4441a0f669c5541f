"""What a file sets, as far as it is sound: so that one wrong value does not hide the next."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pydantic import BaseModel

from testigo.campaign.document import Place
from testigo.campaign.sections import Section
from testigo.campaign.wording import section_of


class Known:
    """Looks up dotted keys. Defaults are filled in; what is missing or wrong is answered by `otherwise`."""

    def __init__(self, plain: Mapping[str, Any]) -> None:
        self.plain = plain

    def __call__(self, dotted: str, otherwise: Any = None) -> Any:
        """The value of a dotted key."""
        value: Any = self.plain
        for step in dotted.split("."):
            if not isinstance(value, Mapping) or step not in value:
                return otherwise
            value = value[step]
        return value

    def __contains__(self, dotted: str) -> bool:
        """Whether the key has a sound value, a default included."""
        absent = object()
        return self(dotted, absent) is not absent


def known_values(model: type[BaseModel], data: Any, wrong: Collection[Place]) -> Known:
    """The sound values of data that was validated with faults at the places `wrong`."""
    return Known(_section(model, data, wrong, ()))


def _section(model: type[BaseModel], data: Any, wrong: Collection[Place], place: Place) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    data = model.filled(data) if issubclass(model, Section) else data
    data = data if isinstance(data, dict) else {}  # a document that is no mapping says nothing
    for name, field in model.model_fields.items():
        key = field.alias or name
        own: Place = (*place, key)
        if own in wrong:
            continue
        if key in data:
            plain[key] = _value(section_of(field.annotation), data[key], wrong, own)
        elif not field.is_required():
            default = field.get_default(call_default_factory=True)
            plain[key] = default.model_dump(by_alias=True) if isinstance(default, BaseModel) else default
    return plain


def _value(section: type[BaseModel] | None, value: Any, wrong: Collection[Place], place: Place) -> Any:
    if section is not None and isinstance(value, dict):
        return _section(section, value, wrong, place)
    if isinstance(value, list):
        return [
            None if (*place, n) in wrong else _value(section, item, wrong, (*place, n)) for n, item in enumerate(value)
        ]
    if isinstance(value, dict):
        return {key: item for key, item in value.items() if (*place, key) not in wrong}
    return value
