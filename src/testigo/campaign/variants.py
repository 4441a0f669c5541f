"""What a variant may set, and the document with its settings in place."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from pydantic import BaseModel

from testigo.campaign.campaign import Campaign
from testigo.campaign.document import Document, Place
from testigo.campaign.fault import Fault
from testigo.campaign.wording import field_of, keys_of, section_of, suggestion

MAY_BE_SET = ("model", "encoding", "training", "machine")
"""A variant keeps data, task, evaluation, seeds and budget: otherwise it could not be compared with the control."""


def settable_keys() -> list[str]:
    """Every dotted key that a variant may set."""
    keys: list[str] = []

    def walk(model: type[BaseModel], start: str) -> None:
        for key in keys_of(model):
            keys.append(start + key)
            field = field_of(model, key)
            if field is not None and (inside := section_of(field.annotation)) is not None:
                walk(inside, f"{start}{key}.")

    for section in MAY_BE_SET:
        field = field_of(Campaign, section)
        inside = section_of(field.annotation) if field is not None else None
        if inside is not None:
            walk(inside, f"{section}.")
    keys.remove("model.base")
    return keys


def variant_faults(settings: Mapping[str, Any], place: Place) -> Iterator[Fault]:
    """Keys that a variant cannot set."""
    known = settable_keys()
    for key in settings:
        first = key.partition(".")[0]
        if key in known:
            inside = [other for other in settings if other.startswith(f"{key}.")]
            if inside:
                yield Fault(
                    (*place, inside[0]),
                    f"either `{key}` or keys inside of it",
                    f"`{inside[0]}` beside `{key}`",
                    "keep one of them",
                    "key",
                )
            continue
        last = key.rpartition(".")[2]
        same = [other for other in known if other.rpartition(".")[2] == last]
        if key == "model.base" or (first in keys_of(Campaign) and first not in MAY_BE_SET):
            yield Fault(
                (*place, key),
                f"a key in {', '.join(f'`{section}`' for section in MAY_BE_SET)}, except `model.base`",
                f"`{key}`: it would no longer be comparable with the control",
                "make a campaign of its own for it",
                "key",
            )
        elif key in MAY_BE_SET:
            yield Fault((*place, key), "a dotted key", f"`{key}`", f"write for example `{_example(known, key)}`", "key")
        else:
            action = f"did you mean `{same[0]}`?" if same else suggestion(key, known, f"such as `{known[0]}`")
            yield Fault((*place, key), "a dotted key of a setting", f"`{key}`", action, "key")


def _example(known: list[str], section: str) -> str:
    return next(key for key in known if key.startswith(f"{section}."))


def applied(document: Document, settings: Mapping[str, Any], place: Place) -> Document:
    """The document with these settings, whose lines are the variant's own, and without variants."""
    data = copy.deepcopy(document.data)
    data["variants"] = []
    keys, values = dict(document.keys), dict(document.values)
    for dotted, value in settings.items():
        target: Place = tuple(dotted.split("."))
        around = data
        for step in target[:-1]:
            if not isinstance(around.get(step), dict):
                around[step] = {}
            around = around[step]
        around[target[-1]] = copy.deepcopy(value)
        for marks in (keys, values):
            for old in [known for known in marks if known[: len(target)] == target]:
                del marks[old]
            own = (*place, dotted)
            for old, mark in [(known, mark) for known, mark in marks.items() if known[: len(own)] == own]:
                marks[target + old[len(own) :]] = mark
    return replace(document, data=data, keys=keys, values=values)
