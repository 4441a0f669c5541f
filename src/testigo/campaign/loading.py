"""From the file to a `Campaign`, or to all its problems at once."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from testigo.campaign.campaign import Campaign
from testigo.campaign.checks import setting_faults
from testigo.campaign.document import Document, Mark, Place, in_order, read_document
from testigo.campaign.fault import Fault
from testigo.campaign.files import file_faults
from testigo.campaign.known import Known, known_values
from testigo.campaign.secret_checks import secret_faults
from testigo.campaign.sections import Variant
from testigo.campaign.shape import shape_faults
from testigo.campaign.tracking import with_plain_track
from testigo.campaign.variants import applied, variant_faults
from testigo.errors import CampaignError, Problem


def load(path: Path | str) -> Campaign:
    """Read a campaign file.

    Raises
    ------
    CampaignError
        With every problem of the file, each with its line.
    """
    document, malformed = with_plain_settings(Path(path))
    known, faults = _settings(document)
    faults = [*malformed, *(fault for fault in faults if not (malformed and fault.place == ("track",)))]
    faults += [*secret_faults(document.data), *file_faults(known, document.path.resolve().parent)]
    unreadable = {mark for mark, _ in document.problems}
    problems = [told for fault in faults if (told := _problem(document, fault))[0] not in unreadable]
    problems += document.problems
    for n, _ in enumerate(known("variants", [])):
        problems += _variant_problems(document, n, faults)
    if problems:
        raise CampaignError(problems=in_order(problems))
    campaign = Campaign.of(document)
    doubles = list(_doubles(campaign))
    if doubles:
        raise CampaignError(problems=in_order(_problem(document, fault) for fault in doubles))
    return campaign


def with_plain_settings(path: Path) -> tuple[Document, list[Fault]]:
    """A campaign file with `rules` and `track` in their one form, and what is malformed in them."""
    return with_plain_track(_with_plain_rules(read_document(path)))


def with_variant(campaign: Campaign, variant: Variant) -> Campaign:
    """The campaign with a variant's settings, checked again; it has no variants of its own.

    Raises
    ------
    CampaignError
        The settings do not go together; the problem names the variant's line.
    """
    document = campaign._document
    place: Place = next(
        (("variants", n) for n, own in enumerate(campaign.variants) if own.name == variant.name), ("variants",)
    )
    faults = list(variant_faults(variant.set, (*place, "set")))
    changed = applied(document, variant.set, (*place, "set"))
    if not faults:
        faults = [_at_own_line(fault, variant.set, (*place, "set")) for fault in _settings(changed)[1]]
    if faults:
        raise CampaignError(problems=in_order(_problem(changed, fault) for fault in faults))
    return Campaign.of(changed)


def _settings(document: Document) -> tuple[Known, list[Fault]]:
    """What the file sets, as far as it is sound, and the faults of types, keys, bounds and pairs."""
    faults: list[Fault] = []
    try:
        Campaign.model_validate(document.data)
    except ValidationError as error:
        faults = list(shape_faults(error, document.data))
    known = known_values(Campaign, document.data, {fault.place for fault in faults})
    return known, faults + setting_faults(known)


def _variant_problems(document: Document, n: int, control: Iterable[Fault]) -> list[tuple[Mark, Problem]]:
    place: Place = ("variants", n, "set")
    own = document.data["variants"][n]
    settings = own.get("set") if isinstance(own, dict) else None
    if not isinstance(settings, dict) or not settings:
        return []
    faults = list(variant_faults(settings, place))
    sound = {key: value for key, value in settings.items() if (*place, key) not in {fault.place for fault in faults}}
    changed = applied(document, sound, place)
    seen = {(fault.place, fault.expected) for fault in control}
    new = [fault for fault in _settings(changed)[1] if (fault.place, fault.expected) not in seen]
    faults += [_at_own_line(fault, sound, place) for fault in new]
    return [_problem(changed, fault) for fault in faults]


def _at_own_line(fault: Fault, settings: Mapping[str, Any], place: Place) -> Fault:
    """A variant's fault stands at the key that it sets, or at its `set` where another key is named."""
    for dotted in settings:
        target = tuple(dotted.split("."))
        if fault.place[: len(target)] == target:
            return fault
    return replace(fault, place=place, at="key")


def _doubles(campaign: Campaign) -> Iterator[Fault]:
    """Variants that say the same as the control or as another variant."""
    seen = {_settings_of(campaign): "the control"}
    for n, variant in enumerate(campaign.variants):
        settings = _settings_of(with_variant(campaign, variant))
        if settings in seen:
            yield Fault(
                ("variants", n, "set"),
                expected="settings of its own",
                found=f"the same settings as {seen[settings]}",
                action="change a setting, or remove this variant",
            )
        seen.setdefault(settings, f"the variant `{variant.name}`")


def _settings_of(campaign: Campaign) -> str:
    canonical = campaign.canonical()
    return json.dumps({key: canonical[key] for key in ("model", "encoding", "training", "machine")}, sort_keys=True)


def _problem(document: Document, fault: Fault) -> tuple[Mark, Problem]:
    mark = document.mark(fault.place, fault.at)
    return mark, document.problem(mark, expected=fault.expected, found=fault.found, action=fault.action)


def _with_plain_rules(document: Document) -> Document:
    """`rules:` may be a mapping of limits or a list of files and limits; both become `files` and `limits`."""
    rules = document.data.get("rules") if isinstance(document.data, dict) else None
    if not isinstance(rules, dict | list):
        return document
    files: list[Any] = []
    limits: dict[str, Any] = {}
    moved: dict[Place, Place] = {}
    problems = list(document.problems)
    for n, item in enumerate(rules if isinstance(rules, list) else [rules]):
        old: Place = ("rules", n) if isinstance(rules, list) else ("rules",)
        if not isinstance(item, dict):
            moved[old] = ("rules", "files", len(files))
            files.append(item)
            continue
        for code, own in item.items():
            if code in limits:
                twice = Fault((*old, code), f"the limits of `{code}` once", "them again", "keep one of them", "key")
                problems.append(_problem(document, twice))
                continue
            moved[(*old, code)] = ("rules", "limits", code)
            limits[code] = own
    return replace(
        document,
        data={**copy.deepcopy(document.data), "rules": {"files": files, "limits": limits}},
        keys=_moved(document.keys, moved),
        values=_moved(document.values, moved),
        problems=tuple(problems),
    )


def _moved(marks: Mapping[Place, Mark], moved: Mapping[Place, Place]) -> dict[Place, Mark]:
    result = dict(marks)
    for place, mark in marks.items():
        for old, new in moved.items():
            if place[: len(old)] == old:
                result[new + place[len(old) :]] = mark
    return result
