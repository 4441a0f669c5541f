"""What a search for duplicates found: pairs of rows, each with its kind, its part and how alike they are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

Kind = Literal["exact", "near", "contained", "overlap", "passage", "conflicts"]
"""`exact`: the same input and target. `near`: most shingles in common. `contained`: all words of the one stand in the
other. `overlap`: most 8-grams of the one stand in the other. `passage`: one 13-gram in common, for which no row leaves.
`conflicts`: the same input, another target."""
KINDS: tuple[Kind, ...] = get_args(Kind)
Alike = Literal["prompt", "answer", "both"]


@dataclass(frozen=True, order=True)
class Pair:
    """Two rows that are alike, by id. `one` is the row that is contained or covered, where that is not both."""

    kind: Kind
    one: str
    other: str
    part: Alike
    similarity: float
    """Jaccard similarity of near pairs, covered share of the others, 0 to 1."""

    @property
    def is_joined(self) -> bool:
        """Whether the rows may not be torn apart by a split that is made here: their prompts are alike."""
        return self.part != "answer"


@dataclass(frozen=True)
class Found:
    """All pairs, sorted."""

    pairs: tuple[Pair, ...] = ()

    def of(self, kind: Kind) -> tuple[Pair, ...]:
        """The pairs of a kind."""
        return tuple(pair for pair in self.pairs if pair.kind == kind)

    @property
    def edges(self) -> tuple[tuple[str, str], ...]:
        """Ids of rows that belong into one split."""
        return tuple((pair.one, pair.other) for pair in self.pairs if pair.is_joined)

    def and_also(self, pairs: Iterable[Pair]) -> Found:
        """These pairs and others."""
        return Found(tuple(sorted({*self.pairs, *pairs})))
