"""What a planted silent error is: one small record, and the function that builds the sick training or its twin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

Loop = Literal["own", "Trainer", "SFTTrainer"]
CASES: list[Case] = []
"""Every case, in the order of the table."""


@dataclass(frozen=True)
class Case:
    """One fault in one loop."""

    fault: str
    """What is wrong, in words; the same fault in several loops has the same words."""
    source: str
    """A case of docs/cases.md (C01 to C56), or the public report that it was taken from."""
    by: Literal["pilot", "watch"]
    """What finds it."""
    codes: tuple[str, ...]
    """The codes that name it."""
    loop: Loop
    build: Callable[..., Any]
    """`build(shop, sick)` returns a Trainer; in our own loop `build(patch)` plants the fault and returns
    the changes of the campaign in which it shows."""

    @property
    def id(self) -> str:
        return f"{self.loop}-{self.build.__name__}"


def planted(
    fault: str, *, source: str, codes: str, by: Literal["pilot", "watch"] = "pilot", loop: Loop = "Trainer"
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Put a case into the list, beside the function that builds it."""

    def register(build: Callable[..., Any]) -> Callable[..., Any]:
        CASES.append(Case(fault, source, by, tuple(codes.split()), loop, build))
        return build

    return register
