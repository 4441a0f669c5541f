"""A waiver written into the campaign file by a command: everything else in the file stays as its author wrote it."""

from __future__ import annotations

import json
from pathlib import Path

from testigo.campaign.document import read_document
from testigo.campaign.loading import load
from testigo.disk import write_atomically
from testigo.errors import CampaignError

_INDENT = "  "


def with_waiver(path: Path, code: str, reason: str) -> None:
    """Add `waive: {CODE: reason}` to the file; it is replaced only when it then says that and nothing else new.

    Raises
    ------
    CampaignError
        When the rule is waived already, or the file is written in a way that only its author should change.
    """
    document = read_document(path)
    waived = dict(document.data.get("waive") or {})
    if code in waived:
        raise CampaignError(
            expected=f"a rule that is not waived yet, to waive {code}",
            found=f"waived already: {waived[code]}",
            where=str(path),
            action="change the reason in the file",
        )
    text = _text(document.text, code, json.dumps(reason, ensure_ascii=False), has_waivers=bool(waived))
    aside = path.with_name(f".{path.name}.waived")
    try:
        write_atomically(aside, text)
        says = read_document(aside).data
        if says != {**document.data, "waive": {**waived, code: reason}}:
            raise CampaignError(
                expected="a place in the file for one line more",
                found="waivers that are written in a way that a command should not change",
                where=str(path),
                action=f"write it yourself: waive: {{{code}: the reason}}",
            )
        load(aside)
        write_atomically(path, text)
    finally:
        aside.unlink(missing_ok=True)


def _text(text: str, code: str, reason: str, *, has_waivers: bool) -> str:
    lines = text.splitlines(keepends=True)
    at = next((place for place, line in enumerate(lines) if line.startswith("waive:")), None)
    if at is None:
        return f"{text.rstrip()}\nwaive:\n{_INDENT}{code}: {reason}\n"
    if not has_waivers:  # `waive: {}`, or nothing behind it
        return "".join([*lines[:at], f"waive:\n{_INDENT}{code}: {reason}\n", *lines[at + 1 :]])
    head, brace, rest = lines[at].partition("{")
    if brace:
        return "".join([*lines[:at], f"{head}{{{code}: {reason}, {rest.lstrip()}", *lines[at + 1 :]])
    first = next((line for line in lines[at + 1 :] if line.strip() and not line.lstrip().startswith("#")), _INDENT)
    indent = first[: len(first) - len(first.lstrip())]
    return "".join([*lines[: at + 1], f"{indent}{code}: {reason}\n", *lines[at + 1 :]])
