"""A row as the model sees it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True)
class EncodedRow:
    """One row as the model sees it, and which of its ids count in the loss.

    Attributes
    ----------
    n_prompt
        How many ids stand before the first that counts [tokens].
    spans
        (begin, end) of each assistant's turn with the token that ends it, in order and apart from each other; None
        where all that follows the prompt counts.
    """

    id: str
    category: str
    ids: tuple[int, ...]
    n_prompt: int
    spans: tuple[tuple[int, int], ...] | None = None

    @property
    def supervised_spans(self) -> tuple[tuple[int, int], ...]:
        """What counts in the loss. The first id of a row never does, since nothing stands before it to predict it."""
        return self.spans or ((max(self.n_prompt, 1), len(self.ids)),)

    @cached_property
    def array(self) -> np.ndarray:
        """(tokens,) the ids."""
        return np.asarray(self.ids)

    @property
    def n_tokens(self) -> int:
        """Prompt and answer together [tokens]."""
        return len(self.ids)

    @property
    def n_supervised(self) -> int:
        """What counts in the loss [tokens]."""
        return sum(end - begin for begin, end in self.supervised_spans)

    @property
    def supervised_ids(self) -> tuple[int, ...]:
        """The ids that count in the loss, one turn after the other."""
        return tuple(token for begin, end in self.supervised_spans for token in self.ids[begin:end])

    @property
    def n_before_answer(self) -> int:
        """How many ids stand before the last turn that counts: what evaluation asks with [tokens]."""
        return self.spans[-1][0] if self.spans else self.n_prompt

    @property
    def n_answer(self) -> int:
        """The last turn that counts, with its end [tokens]."""
        return len(self.ids) - self.n_before_answer
