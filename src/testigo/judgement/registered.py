"""What was registered, as the judgement reads it: `campaign.hypothesis` has this shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Improve(Protocol):
    """The registered improvement."""

    @property
    def metric(self) -> str:
        """Its name."""
        ...

    @property
    def by(self) -> float:
        """The smallest improvement that matters, a share."""
        ...


class Keep(Protocol):
    """A registered guard."""

    @property
    def metric(self) -> str:
        """Its name."""
        ...

    @property
    def within(self) -> float:
        """The fall that is allowed, a share."""
        ...


class Hypothesis(Protocol):
    """What was registered: `campaign.hypothesis`."""

    @property
    def improve(self) -> Improve:
        """What must rise."""
        ...

    @property
    def keep(self) -> Sequence[Keep]:
        """What must not fall."""
        ...

    @property
    def alpha(self) -> float:
        """The chance of a false *shown* that was accepted."""
        ...
