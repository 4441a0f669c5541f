"""Where an output departs from its target, piece by piece, for the side-by-side examples."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

_PIECE = re.compile(r"\w+|\s+|[^\w\s]")


@dataclass(frozen=True)
class Mark:
    """A piece of the output: `same` as the target, `other` than it, or a place where target text is `absent`."""

    kind: Literal["same", "other", "absent"]
    text: str


def marked(output: str, target: str) -> tuple[Mark, ...]:
    """The output cut into pieces that agree with the target and pieces that do not.

    The texts of `same` and `other` joined give the output exactly; `absent` carries what the target has there.
    """
    if not target:
        return (Mark("same", output),) if output else ()
    ours, theirs = _PIECE.findall(output), _PIECE.findall(target)
    marks: list[Mark] = []
    matcher = SequenceMatcher(a=theirs, b=ours, autojunk=False)
    for kind, i1, i2, j1, j2 in matcher.get_opcodes():
        written, expected = "".join(ours[j1:j2]), "".join(theirs[i1:i2])
        if kind == "equal":
            marks.append(Mark("same", written))
        elif written:
            marks.append(Mark("other", written))
        else:
            marks.append(Mark("absent", expected))
    return tuple(marks)
