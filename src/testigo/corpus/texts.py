"""Texts made ready to be compared: normalised, each once, with what many of them share.

Shared text is what stands in `SHARED_ROWS` rows or more (in large data in `SHARED_SHARE` of them): a template, a
schema, a greeting, an idiom. It is no sign of a copy and does not count. It is found by document frequency, as common
words are in retrieval (Spärck Jones 1972, "A statistical interpretation of term specificity"). Both limits are choices
of ours: a text that was copied ten times and more, each time with another answer, is a template. Where answers are
mostly different, rows with one answer count as one, so that many copies of a row make no template of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from testigo.corpus.duplicates import normalised
from testigo.corpus.tokens import BLOCK, Hashes, Places, Shape, Tokens, distinct_a_text, word_tokens

SHARED_ROWS = 10
SHARED_SHARE = 0.001
SAMPLE = BLOCK  # 20,000 rows by which frequencies are estimated: a share of 0.001 is then 20 rows, give or take 4.5


@dataclass(frozen=True)
class Texts:
    """Distinct normalised texts; `rows[i]` are the places of the rows that say text i, in order."""

    normalised: tuple[str, ...]
    rows: tuple[tuple[int, ...], ...]
    sample: Places
    """Places in `normalised` of the texts by which frequencies are estimated, ascending."""
    counted_as: Places
    """A number for each text: of texts with one number, each n-gram is counted once."""

    @classmethod
    def of(cls, values: Sequence[str], beside: Sequence[str] = ()) -> Texts:
        """The texts of rows. `beside` is what else each row says: its answer, where these are prompts."""
        rows: dict[str, list[int]] = {}
        for place, value in enumerate(values):
            rows.setdefault(normalised(value), []).append(place)
        sample = np.unique(np.linspace(0, len(rows) - 1, min(len(rows), SAMPLE)).astype(np.int64))
        numbers: dict[str, int] = {}
        if beside:
            answers = [numbers.setdefault(beside[places[0]], len(numbers)) for places in rows.values()]
        are_answers_different = 4 * len(numbers) >= len(rows) and bool(beside)
        counted_as = np.array(answers if are_answers_different else range(len(rows)), dtype=np.int64)
        return cls(tuple(rows), tuple(tuple(places) for places in rows.values()), sample, counted_as)

    @cached_property
    def words(self) -> Tokens:
        """The words of each text."""
        return word_tokens(self.normalised)

    @property
    def shared_limit(self) -> int:
        """From this many rows of the sample on, text is shared."""
        return max(SHARED_ROWS, round(SHARED_SHARE * len(self.sample)))


def frequencies(tokens: Tokens, shape: Shape, texts: Texts) -> tuple[Hashes, Places]:
    """Sorted n-grams of the sample, and in how many of its texts each stands."""
    found = [distinct_a_text(texts.counted_as[where], grams)[1] for where, grams in tokens.grams(shape, texts.sample)]
    hashes, counts = np.unique(np.concatenate([np.zeros(0, np.uint64), *found]), return_counts=True)
    return hashes, counts.astype(np.int64)


def shared_grams(tokens: Tokens, shape: Shape, texts: Texts) -> Hashes:
    """Sorted n-grams that many texts share."""
    hashes, counts = frequencies(tokens, shape, texts)
    return hashes[counts >= texts.shared_limit]
