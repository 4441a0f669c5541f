"""The rows: where they came from, what became of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """A file that rows came from."""

    file: str
    sha256: str
    rows: int | None


@dataclass(frozen=True)
class CleaningStep:
    """What one cleaning step did."""

    step: str
    changed: int
    dropped: int


@dataclass(frozen=True)
class Split:
    """One split of the rows."""

    name: str
    rows: int
    groups: int | None
    sha256: str
    categories: dict[str, int]


@dataclass(frozen=True)
class Dropped:
    """Rows left out for one reason; `rows` names the first of them."""

    reason: str
    n_rows: int
    rows: tuple[str, ...]


@dataclass(frozen=True)
class Data:
    """The rows, identified and counted."""

    fingerprint: str
    sources: tuple[Source, ...]
    cleaning: tuple[CleaningStep, ...]
    duplicates: dict[str, int]
    splits: tuple[Split, ...]
    split_rule: str
    dropped: tuple[Dropped, ...]
    samples: str
