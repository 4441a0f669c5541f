"""How much two texts have in common that chance does not explain.

Two rows of a template agree in most of their words and are no copies. So what a pair has in common is weighed: a word
that stands in a share p of the rows gives log2(1/p) bits, and a word that follows from its neighbours in other rows
gives none. Of n rows, about n²/2 pairs could agree by chance; a pair counts when its bits are more than it takes to
name one of these pairs, and `MARGIN` more. In short: three words that no other row holds are enough, a template is not.
Where the whole of a text stands in another and their answers agree too, it is enough to name one of the n rows.

Sources: self-information, Shannon 1948, "A mathematical theory of communication"; the limit is Bonferroni's over all
pairs, with an expected number of 2^-5 = 0.03 false pairs in rows whose contents were drawn at random.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from testigo.corpus.texts import Texts, frequencies
from testigo.corpus.tokens import Hashes, Shape

MARGIN = 5.0
"""Bits beyond those that name a pair."""
USUAL = 5
"""In so many other rows a word's neighbours must stand before the word is taken to follow from them: with fewer, a
handful of copies of one row would explain each other. A choice of ours."""

_WORD: Shape = (0,)
_TWO: Shape = (0, 1)
_THREE: Shape = (0, 1, 2)
_AROUND: Shape = (0, 2)
_CONTEXTS: tuple[tuple[Shape, int, Shape, int], ...] = (
    # n-gram that holds the word, the word's offset in it, its neighbours alone, the word's offset from their first
    (_TWO, 1, _WORD, 1),  # after one word
    (_TWO, 0, _WORD, -1),  # before one
    (_THREE, 2, _TWO, 2),  # after two
    (_THREE, 0, _TWO, -1),  # before two
    (_THREE, 1, _AROUND, 1),  # between two
)
Mask = npt.NDArray[np.bool_]
Counts = npt.NDArray[np.int64]


class Evidence:
    """Weighs what pairs of texts have in common."""

    def __init__(self, texts: Texts) -> None:
        self.texts = texts
        self.n_rows = sum(len(rows) for rows in texts.rows)
        self._sampled = frozenset(texts.sample.tolist())
        self._tables = {shape: frequencies(texts.words, shape, texts) for shape in (_WORD, _TWO, _THREE, _AROUND)}
        self._weights = lru_cache(maxsize=10_000)(self._weighed)

    def is_more_than_chance(self, one: int, other: int, within: Mask | None = None) -> bool:
        """Whether two texts have more in common than any two of all rows by chance; `within` are the words to count."""
        pairs = max(self.n_rows * (self.n_rows - 1) / 2, 1)
        return self.bits(one, other, within) >= math.log2(pairs) + MARGIN

    def is_told_apart(self, one: int, other: int) -> bool:
        """Whether two texts have more in common than one of them has with any other row by chance."""
        return self.bits(one, other) >= math.log2(self.n_rows) + MARGIN

    def bits(self, one: int, other: int, within: Mask | None = None) -> float:
        """The weight of the words of `one` that `other` holds too [bits]. A word that is repeated counts once."""
        words = self.texts.words.of(one)
        if within is None:
            theirs = frozenset(self.texts.words.of(other).tolist())
            within = np.fromiter((word in theirs for word in words.tolist()), dtype=bool, count=len(words))
        return float(self._weights(one, sum(text in self._sampled for text in {one, other}))[within].sum())

    def _weighed(self, text: int, own: int) -> npt.NDArray[np.float64]:
        """The bits of each word of a text, of which `own` rows of the sample are no evidence: the pair itself."""
        words = self.texts.words.of(text)
        alone, contexts = self._counted(text)
        share = (np.maximum(alone - own, 0) + 0.5) / (max(len(self._sampled) - own, 0) + 1.0)
        for whole, neighbours in contexts:
            follows = (np.maximum(whole - own, 0) + 0.5) / (np.maximum(neighbours - own, 0) + 1.0)
            share = np.maximum(share, np.where(neighbours - own >= USUAL, follows, 0.0))
        bits = np.zeros(len(words))
        first = np.unique(words, return_index=True)[1]
        bits[first] = -np.log2(np.minimum(share, 1.0))[first]
        return bits

    def _counted(self, text: int) -> tuple[Counts, list[tuple[Counts, Counts]]]:
        """For each word of a text: rows that hold it; and for each context, rows with the word there, and with any."""
        n = len(self.texts.words.of(text))
        contexts = []
        for whole, at, neighbours, start in _CONTEXTS:
            contexts.append((self._laid(text, whole, -at, n), self._laid(text, neighbours, -start, n)))
        return self._laid(text, _WORD, 0, n), contexts

    def _laid(self, text: int, shape: Shape, shift: int, n: int) -> Counts:
        """For each word, in how many rows the n-gram stands that begins `shift` words from it; 0 where none begins."""
        hashes, counts = self._tables[shape]
        grams = self.texts.words.grams_of(text, shape)
        laid = np.zeros(n, dtype=np.int64)
        begins = np.arange(n) + shift
        inside = (begins >= 0) & (begins < len(grams))
        laid[inside] = _count(grams[begins[inside]], hashes, counts)
        return laid


def _count(values: Hashes, hashes: Hashes, counts: Counts) -> Counts:
    """How often each value was counted."""
    if not len(hashes):
        return np.zeros(len(values), dtype=np.int64)
    found = np.minimum(np.searchsorted(hashes, values), len(hashes) - 1)
    return np.where(hashes[found] == values, counts[found], 0)
