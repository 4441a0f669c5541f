"""One thing that is wrong at one place of the file, before it is given a line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from testigo.campaign.document import Place


@dataclass(frozen=True)
class Fault:
    """A problem whose place is the way to the value (or its key) in the file."""

    place: Place
    expected: str
    found: str
    action: str
    at: Literal["key", "value"] = "value"
