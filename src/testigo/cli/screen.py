"""The console that all commands print with: what stands in rows, notes and names reaches no terminal as a command."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from testigo.signs import shown


class Screen(Console):
    """Rich's console, with control and direction signs of contents written by number; its own colours stay its own."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """A text, made visible before its width is measured."""
        return super().render_str(shown(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Everything else that is printed, piece by piece; what moves the cursor for a bar is Rich's own."""
        for piece in super().render(renderable, options):
            yield piece if piece.control else Segment(shown(piece.text), piece.style)
