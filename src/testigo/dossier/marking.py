"""Where an output departs from its target, piece by piece, for the side-by-side examples."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

_PIECE = re.compile(r"(\s*)(\w+|[^\w\s])")


@dataclass(frozen=True)
class Mark:
    """A piece of the output: `same` as the target, `other` than it, or a place where target text is `absent`."""

    kind: Literal["same", "other", "absent"]
    text: str


def marked(output: str, target: str) -> tuple[Mark, ...]:
    """The output cut into pieces that agree with the target and pieces that do not.

    The texts of `same` and `other` joined give the output exactly; `absent` carries what the target has there. White
    space is no departure: most scores do not see it.
    """
    if not target or not output:
        return (Mark("same", output),) if output else ()
    ours, theirs = _PIECE.findall(output), _PIECE.findall(target)
    marks: list[Mark] = []
    matcher = SequenceMatcher(a=[word for _, word in theirs], b=[word for _, word in ours], autojunk=False)
    for kind, i1, i2, j1, j2 in matcher.get_opcodes():
        if kind == "delete":
            marks.append(Mark("absent", "".join(map("".join, theirs[i1:i2])).strip()))
            continue
        written = "".join(map("".join, ours[j1:j2]))
        if kind == "equal":
            marks.append(Mark("same", written))
        else:
            word = written.lstrip()
            marks += [Mark("same", written[: len(written) - len(word)]), Mark("other", word)]
    marks.append(Mark("same", output[len(output.rstrip()) :]))
    return tuple(mark for mark in marks if mark.text)
