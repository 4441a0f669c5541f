"""A reporter that nobody hears."""

from __future__ import annotations


class Silent:
    def say(self, text: str) -> None:
        pass

    def progress(self, step: str, done: int, of: int, note: str = "") -> None:
        pass

    def ended(self, step: str) -> None:
        pass
