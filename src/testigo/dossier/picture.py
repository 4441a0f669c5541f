"""A picture as the page shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from testigo.dossier import units
from testigo.dossier.language import _


@dataclass(frozen=True)
class Picture:
    """A picture in two widths, its description, and the table of the same numbers."""

    title: str
    caption: str
    wide: Markup
    narrow: Markup
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


def cell(column: Mapping[Any, float | None], update: float) -> str:
    """What stands in a picture's table at an update of one of its curves; None is a value that is not finite."""
    if update not in column:
        return ""
    value = column[update]
    return _("not finite") if value is None else units.number(value)
