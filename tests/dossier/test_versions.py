"""A dossier of another version: what that one did not record is said, and is no traceback and no false dossier."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testigo.campaign.campaign import digest
from testigo.cli import run
from testigo.dossier import sums, twin, verify_dossier
from testigo.errors import WorkspaceError


def of_an_earlier_version(dossier: Path, fields: dict[str, tuple[str, ...]]) -> None:
    """Take fields of kinds of values out of dossier.json and out of the schema beside it, as if they had never been."""
    schema = json.loads((dossier / "dossier.schema.json").read_text(encoding="utf-8"))
    document = json.loads((dossier / "dossier.json").read_text(encoding="utf-8"))
    for kind, names in fields.items():
        part = schema if kind == "Record" else schema["$defs"][kind]
        for name in names:
            del part["properties"][name]
            part["required"].remove(name)
    _without(document, schema, schema)
    document["testigo_version"] = document["drawn_with"]["testigo"] = "0.0.9"
    (dossier / "dossier.schema.json").write_text(json.dumps(schema), encoding="utf-8")
    (dossier / "dossier.json").write_text(twin.text_of(document), encoding="utf-8")
    sums.write_sums(dossier)


def _without(value: Any, part: Any, schema: Any) -> None:
    for one in part.get("anyOf", ()):
        _without(value, one, schema)
    if "$ref" in part:
        part = schema["$defs"][part["$ref"].rpartition("/")[2]]
    if isinstance(value, dict) and "properties" in part:
        for name in [name for name in value if name not in part["properties"]]:
            del value[name]
        for name, item in value.items():
            _without(item, part["properties"][name], schema)
    for item in value if isinstance(value, list) else ():
        _without(item, part.get("items", {}), schema)


def change_document(dossier: Path, change: Callable[[Any], object]) -> None:
    document = json.loads((dossier / "dossier.json").read_text(encoding="utf-8"))
    change(document)
    (dossier / "dossier.json").write_text(twin.text_of(document), encoding="utf-8")
    sums.write_sums(dossier)


NEWER = {
    "Record": ("generations", "times", "beside_files", "on_validation"),
    "Run": ("samples", "invalid_because"),
    "Phase": ("resident_before_bytes",),
    "Note": ("gate",),
}


def test_what_an_earlier_version_did_not_record_is_said_and_the_rest_is_checked(dossier: Path) -> None:
    of_an_earlier_version(dossier, NEWER)
    result = verify_dossier(dossier)
    assert result.faults == ()
    (told,) = [line for line in result.not_checked if "was not recorded then" in line]
    assert told.startswith("in dossier.json, written by Testigo 0.0.9, ")
    for place in (*NEWER["Record"], "runs.samples", "runs.invalid_because", "gates.phases.resident_before_bytes"):
        assert place in told
    assert "the statistics of validation, computed again" in result.checked
    assert run(["verify", str(dossier), "--no-control"]) == 0


def test_what_an_earlier_version_did_record_is_still_held_against_the_files(dossier: Path) -> None:
    of_an_earlier_version(dossier, NEWER)
    change_document(dossier, lambda d: d["runs"][0].update(attempts=7))
    assert any("runs[0].attempts: claimed 7, found 1" in fault for fault in verify_dossier(dossier).faults)


def test_statistics_that_were_not_computed_then_are_said(dossier: Path) -> None:
    of_an_earlier_version(dossier, {})
    change_document(dossier, lambda d: d["comparison"]["statistics"]["improvement"].pop("p_value"))
    result = verify_dossier(dossier)
    assert result.faults == ()
    assert "in the statistics of validation, what was not computed then: improvement.p_value" in result.not_checked


@pytest.mark.parametrize(
    ("place", "name"), [((), "waivers"), (("runs", 0), "cause"), (("comparison",), "differences"), ((), "more")]
)
def test_a_field_that_the_schema_beside_has_and_the_twin_lacks_or_the_reverse_is_named(
    dossier: Path, place: tuple[Any, ...], name: str
) -> None:
    def change(d: Any) -> None:
        for key in place:
            d = d[key]
        if name in d:
            del d[name]
        else:
            d[name] = 1

    change_document(dossier, change)
    faults = verify_dossier(dossier).faults
    assert any(fault.startswith("dossier.json: was changed: ") and name in fault for fault in faults), faults


def test_a_dossier_that_recorded_too_little_is_refused_by_four_parts_and_not_called_false(
    dossier: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of_an_earlier_version(dossier, {"Run": ("attempts",)})
    with pytest.raises(WorkspaceError) as caught:
        verify_dossier(dossier)
    (problem,) = caught.value.problems
    assert "Testigo 0.0.9 wrote it, and recorded no runs[0].attempts" in problem.found
    assert problem.action == "verify it with the version of Testigo that wrote it"
    assert run(["verify", str(dossier), "--no-control"]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_what_a_later_version_wrote_beside_is_said_to_be_unknown(dossier: Path) -> None:
    schema = json.loads((dossier / "dossier.schema.json").read_text(encoding="utf-8"))
    schema["$defs"]["Run"]["properties"]["carbon_grams"] = {"type": "number"}
    (dossier / "dossier.schema.json").write_text(json.dumps(schema), encoding="utf-8")
    change_document(dossier, lambda d: [one.update(carbon_grams=3.5) for one in d["runs"]])
    result = verify_dossier(dossier)
    assert result.faults == ()
    (told,) = [line for line in result.not_checked if line.endswith("runs.carbon_grams")]
    assert "what this version does not know" in told


def test_a_setting_that_came_after_the_registration_is_no_change_of_the_campaign(story: Any, making: Any) -> None:
    """The version that registered knew nothing of it, and the file does not set it."""
    story = making.without_digests(story, without=("encoding.turns", "guards"))
    dossier = story.write()
    told = "in campaign.yaml, what an earlier version registered without: encoding.turns, guards"
    result = verify_dossier(dossier)
    assert result.faults == ()
    assert told in result.not_checked

    def as_then(d: Any) -> None:
        del d["plan"]["settings"]["guards"], d["plan"]["settings"]["encoding"]["turns"]
        d["plan"]["identity"] = digest(d["plan"]["settings"])
        d["drawn_with"]["testigo"] = "0.0.9"

    change_document(dossier, as_then)
    result = verify_dossier(dossier)
    assert result.faults == ()
    assert told in result.not_checked
    change_document(dossier, lambda d: d["plan"]["settings"]["training"].update(updates=1))
    assert any("plan.settings.training.updates" in fault for fault in verify_dossier(dossier).faults)
