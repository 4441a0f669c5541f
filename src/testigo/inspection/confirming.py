"""What a person confirms before the first run: samples of every category, with a digest of their tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from testigo.campaign.campaign import digest
from testigo.inspection.seen import SeenRow

How = Literal["run", "show", "--yes", "no terminal"]
"""Where the question was answered: by a person at `run` or `show`, or by nobody."""


@dataclass(frozen=True)
class Confirmation:
    """The answer to the question whether samples show what the model should see.

    Attributes
    ----------
    by
        Who looked, in free text; empty when nobody did.
    encoding
        Identity of the encoding that was looked at: rows, base, task, encoding settings.
    rows, shown
        The rows that were shown, and a digest of their tensors: ids, what counts, segments, positions.
    """

    corpus: str
    encoding: str
    by: str
    how: How
    rows: tuple[str, ...] = ()
    shown: str = ""

    @property
    def looked(self) -> bool:
        """Whether a person looked."""
        return self.how in ("run", "show")

    def to_body(self) -> dict[str, Any]:
        """As the ledger keeps it."""
        return {
            "corpus": self.corpus,
            "encoding": self.encoding,
            "looked": self.looked,
            "by": self.by,
            "how": self.how,
            "rows": list(self.rows),
            "shown": self.shown,
        }


def answers(body: Mapping[str, Any], *, corpus: str, encoding: str) -> bool:
    """Whether an event of the ledger answers for this encoding; an event of an older version named the corpus alone."""
    return body.get("corpus") == corpus and body.get("encoding", encoding) == encoding


def digest_of_shown(rows: Sequence[SeenRow]) -> str:
    """Changes with any token, mask, segment or position of any row that was shown."""
    return digest(
        {row.id: [[token.id, token.counts, token.segment, token.position] for token in row.tokens] for row in rows}
    )
