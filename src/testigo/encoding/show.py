"""What a person looks at: each token of a row with its id, text, place, and whether it counts in the loss."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from testigo.encoding.encoder import EncodedRow, Encoder


@dataclass(frozen=True)
class Token:
    """One token as it reaches the model.

    `counts` says whether it is a target of the loss; `special` whether the tokenizer treats it as a mark.
    """

    position: int
    id: int
    text: str
    counts: bool
    special: bool

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def tokens(encoder: Encoder, row: EncodedRow) -> tuple[Token, ...]:
    """The tokens of a row in their order."""
    special = set(encoder.frame.tokenizer.all_special_ids)
    counted = {place for begin, end in row.supervised_spans for place in range(begin, end)}
    return tuple(
        Token(place, token, encoder.frame.text_of([token]), place in counted, token in special)
        for place, token in enumerate(row.ids)
    )
