"""A waiver written into the campaign file by a command: everything else in the file stays as its author wrote it."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testigo.campaign.document import read_document
from testigo.campaign.loading import load
from testigo.disk import write_atomically
from testigo.errors import CampaignError

_INDENT = "  "
_TRIES = 5
"""How often the file is read again that somebody saved while the waiver was being written."""


def with_waiver(path: Path, code: str, reason: str) -> None:
    """Add `waive: {CODE: reason}` to the file; it is replaced only when it then says that and nothing else new.

    Several processes may do so at once: one waits for the other. What an editor saves meanwhile is kept.

    Raises
    ------
    CampaignError
        When the rule is waived already, the file is written in a way that only its author should change, or somebody
        saves it again and again.
    """
    with _alone(path):
        for _ in range(_TRIES):
            if _is_written(path, code, reason):
                return
    raise CampaignError(
        expected=f"a file that rests for a moment, to waive {code}",
        found="somebody saves it again and again",
        where=str(path),
        action="save it, then run the same command again",
    )


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """One process at a time; the folder is locked, since the file itself is replaced."""
    try:
        folder = os.open(path.resolve().parent, os.O_RDONLY)
    except OSError as error:
        raise CampaignError(
            expected="a campaign file",
            found=str(error.strerror),
            where=str(path),
            action="check the name",
        ) from error
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _is_written(path: Path, code: str, reason: str) -> bool:
    """Write the file with the waiver; False, and nothing written, when it was saved since it was read."""
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
    file = path.resolve()  # where the name is a link, the file behind it is replaced, not the link
    aside = file.with_name(f".{file.name}.{os.getpid()}.waived")
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
        if read_document(path).text != document.text:
            return False
        write_atomically(file, text)
    finally:
        aside.unlink(missing_ok=True)
    return True


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
