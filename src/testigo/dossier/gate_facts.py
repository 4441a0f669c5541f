"""The gates section, from the pilot's files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from testigo.dossier.files import read_json, real, whole, words
from testigo.dossier.record import Gates, Phase
from testigo.rules import DOES_NOT_APPLY, Finding, NotChecked, Passed, Severity


def gates_from(folder: Path) -> Gates | None:
    """What the pilot found; None when it left no findings and no phases."""
    findings, phases = read_json(folder / "findings.json"), read_json(folder / "phases.json")
    if findings is None and phases is None:
        return None
    finished = findings is not None
    findings, phases = findings or {}, phases or {}
    platform = phases.get("platform")
    return Gates(
        finished=finished,
        ok=findings.get("ok") is True,
        phases=tuple(_phase(phase) for phase in _list(phases.get("phases"))),
        findings=tuple(finding_from(finding) for finding in _list(findings.get("findings"))),
        passed=tuple(
            Passed(str(item.get("code", "")), str(item.get("observed", ""))) for item in _list(findings.get("passed"))
        ),
        not_checked=tuple(
            NotChecked(str(item.get("code", "")), str(item.get("why", "")))
            for item in _list(findings.get("not_checked"))
            if not str(item.get("why", "")).startswith(DOES_NOT_APPLY)
        ),
        platform=flat(platform) if isinstance(platform, Mapping) else {},
    )


def finding_from(value: Mapping[str, Any]) -> Finding:
    """A finding read back from JSON. An unknown severity counts as a stop: doubt must not pass."""
    given = value.get("severity")
    severity: Severity = "warn" if given == "warn" else "note" if given == "note" else "stop"
    return Finding(
        code=str(value.get("code", "")),
        name=str(value.get("name", "")),
        severity=severity,
        phase=str(value.get("phase", "")),
        observed=str(value.get("observed", "")),
        remedy=str(value.get("remedy", "")),
        rows=tuple(str(row) for row in value.get("rows") or ()),
    )


def flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """A nested mapping as one level of names and short texts."""
    result: dict[str, str] = {}
    for key, item in value.items():
        name = f"{prefix}{key}".replace("_", " ")
        if isinstance(item, Mapping):
            result |= flat(item, f"{name} ")
        elif (text := words(item)) != "":
            result[name] = text
    return result


def _list(value: object) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _phase(value: Mapping[str, Any]) -> Phase:
    return Phase(
        phase=str(value.get("phase", "")),
        inputs=words(value.get("inputs")),
        allocated_peak_bytes=whole(value.get("allocated_peak_bytes")),
        reserved_peak_bytes=whole(value.get("reserved_peak_bytes")),
        resident_before_bytes=whole(value.get("resident_before_bytes")),
        resident_peak_bytes=whole(value.get("resident_peak_bytes")),
        seconds=real(value.get("seconds")),
        verdict=str(value.get("verdict", "")),
    )
