"""How far a sizing is: runs of the model that are done, and how many may still come."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Progress = Callable[[int, int, str], object]
"""Runs done, runs at most, a few words."""


def silent(done: int, of: int, words: str) -> None:
    """Nobody listens."""


@dataclass
class Journey:
    """Runs of the model without values. How many there will be is known at most: a search may end early.

    Attributes
    ----------
    tell
        Called before each run with the number of those that are done, of all, and a few words.
    ahead
        Runs that may still come.
    """

    tell: Progress = silent
    ahead: int = 1
    _n_begun: int = 0

    def goes(self, words: str) -> None:
        """The next run begins."""
        self.ahead = max(self.ahead, 1)
        self.tell(self._n_begun, self._n_begun + self.ahead, words)
        self._n_begun += 1
        self.ahead -= 1

    def ends(self) -> None:
        """No run will come."""
        self.tell(self._n_begun, self._n_begun, "")
