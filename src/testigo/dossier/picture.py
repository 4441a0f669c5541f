"""A picture as the page shows it."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup


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
