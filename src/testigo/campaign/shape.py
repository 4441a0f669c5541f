"""Faults of the file's shape: unknown keys, missing keys, wrong types, values out of bounds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from testigo.campaign.campaign import Campaign
from testigo.campaign.document import Place
from testigo.campaign.fault import Fault
from testigo.campaign.wording import describe, expects, field_of, keys_of, names_of, section_of, suggestion


def shape_faults(error: ValidationError, data: Any) -> Iterator[Fault]:
    """Pydantic's findings as faults at places of the file, one for each place."""
    told: set[Place] = set()
    for line in error.errors(include_url=False):
        place, value = _within(data, line["loc"])
        if line["type"] == "extra_forbidden":
            yield _unknown_key(place)
        elif line["type"] == "missing":
            yield _missing_key((*place, str(line["loc"][-1])))
        elif line["type"] == "too_short" and value and len(value) >= line["ctx"]["min_length"]:
            continue  # its items are wrong, and each is told
        elif place not in told:
            told.add(place)
            yield _wrong_value(place, value)


def _within(data: Any, location: tuple[int | str, ...]) -> tuple[Place, Any]:
    """The part of an error's location that exists in the data; the rest names branches of a union."""
    place: Place = ()
    for step in location:
        in_mapping = isinstance(data, dict) and step in data
        in_list = isinstance(data, list) and isinstance(step, int) and step < len(data)
        if not in_mapping and not in_list:
            break
        data = data[step]
        place = (*place, step)
    return place, data


def _model_at(place: Place) -> type[BaseModel]:
    model: type[BaseModel] = Campaign
    for step in place:
        field = field_of(model, step) if isinstance(step, str) else None
        model = (section_of(field.annotation) if field else None) or model
    return model


def _unknown_key(place: Place) -> Fault:
    key, model = str(place[-1]), _model_at(place[:-1])
    known = keys_of(model)
    homes = [section for section in _sections() if key in keys_of(_model_at((section,))) and section != place[0]]
    if len(place) > 1 and key in keys_of(Campaign):
        action = f"move `{key}` to the left margin"
    else:
        action = suggestion(key, known, f"it belongs in `{homes[0]}`" if homes else "remove it")
    where = f"in `{_dotted(place[:-1])}`" if len(place) > 1 else "at the left margin"
    return Fault(place, expected=f"a key {where}: {', '.join(known)}", found=f"`{key}`", action=action, at="key")


def _sections() -> list[str]:
    return [key for key in keys_of(Campaign) if (field := field_of(Campaign, key)) and section_of(field.annotation)]


def _missing_key(place: Place) -> Fault:
    key, model = str(place[-1]), _model_at(place[:-1])
    field = field_of(model, key)
    takes = expects(field.annotation, field.metadata) if field else "a value"
    about = f" ({(field.description or '').split('. ')[0].rstrip('.')})" if field and field.description else ""
    return Fault(
        place,
        expected=f"the key `{_dotted(place)}`: {takes}",
        found="it is not set",
        action=f"add `{key}: ...`{about}",
        at="key",
    )


def _wrong_value(place: Place, value: Any) -> Fault:
    annotation, metadata = _annotation_at(place)
    takes = expects(annotation, metadata)
    action = f"write such a value{_meaning(place)}" if value is not None else "write a value, or remove the key"
    if isinstance(value, str):
        words = [str(word) for word in _literals(annotation)]
        if words:
            action = suggestion(value, words, f"choose one of {names_of(words)}")
        elif "number" in takes and value.strip().rstrip("%").replace(".", "", 1).isdigit():
            action = "write the number without quotes and signs, a share as 0.1"
    elif isinstance(value, float) and "whole number" in takes and value.is_integer():
        action = f"write {int(value)}" if abs(value) < 1e15 else action
    elif isinstance(value, bool | int | float) and "text" in takes:
        action = "put it in quotes"
    return Fault(place, expected=takes, found=describe(value), action=action)


def _meaning(place: Place) -> str:
    field = field_of(_model_at(place[:-1]), str(place[-1])) if place and isinstance(place[-1], str) else None
    words = (field.description or "").replace("\n", " ").split(". ")[0].rstrip(".") if field else ""
    return f" ({words})" if words else ""


def _annotation_at(place: Place) -> tuple[Any, list[Any]]:
    annotation, metadata = Campaign, []  # type: tuple[Any, list[Any]]
    for step in place:
        model = section_of(annotation)
        if isinstance(step, int):
            annotation, metadata = next((get_args(a)[0] for a in _parts(annotation) if get_origin(a) is tuple), Any), []
        elif model is not None and (field := field_of(model, step)) is not None:
            annotation, metadata = field.annotation, list(field.metadata)
        elif any(get_origin(part) is dict for part in _parts(annotation)):
            annotation, metadata = next(get_args(a)[1] for a in _parts(annotation) if get_origin(a) is dict), []
    return annotation, metadata


def _parts(annotation: Any) -> Iterator[Any]:
    yield annotation
    for part in get_args(annotation):
        if get_origin(annotation) not in (tuple, dict):
            yield from _parts(part)


def _literals(annotation: Any) -> list[Any]:
    return [word for part in _parts(annotation) for word in get_args(part) if isinstance(word, str)]


def _dotted(place: Place) -> str:
    return ".".join(str(step) for step in place)
