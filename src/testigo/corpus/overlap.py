"""Passages in common: n-grams of words that stand in two texts, where few other texts hold them.

Sources: a row is contaminated when 13 words in a row stand in training (Brown et al. 2020, "Language models are
few-shot learners", appendix C), or when most of its 8-grams do (Chowdhery et al. 2022, "PaLM", section 8, takes 70 %;
ours is stricter). The one is told, the other settled by policy.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from testigo.corpus.evidence import Mask
from testigo.corpus.near import CROWD
from testigo.corpus.texts import Texts, shared_grams
from testigo.corpus.tokens import Hashes, Places, Shape, Tokens, among, distinct_a_text, row_of

GRAM = row_of(8)
PASSAGE = row_of(13)
PARTS = 4  # passes over the n-grams, each over a part of them: a quarter of the memory
_FILTER = 1 << 24


@dataclass(frozen=True)
class Overlap:
    """What two distinct texts have in common."""

    one: int
    other: int
    coverage: float
    """The larger share of a text's 8-grams that stand in the other, 0 to 1. Shared 8-grams that both hold are left out;
    one that the other lacks is a difference."""
    is_of_other: bool
    """Whether it is `other` that is covered more."""
    words: Mask
    """Which words of `one` lie in an n-gram that both hold: in an 8-gram, or else in a 13-gram."""


def overlaps(texts: Texts, coverage: float, known: Container[tuple[int, int]] = ()) -> Iterator[Overlap]:
    """Pairs of texts of which one is covered by the other from `coverage` on, or that have a 13-gram in common.

    Pairs that are `known` are left out.
    """
    words = texts.words
    shared, long = shared_grams(words, GRAM, texts), shared_grams(words, PASSAGE, texts)
    where, grams = _repeated(texts, shared)
    grams_of = lru_cache(maxsize=1000)(lambda text: np.unique(words.grams_of(text, GRAM)))
    for one, other, n in _pairs(where, grams, len(texts.normalised)):
        if (one, other) in known:
            continue
        mine, theirs = grams_of(one), grams_of(other)
        template = int(among(mine[among(mine, theirs)], shared).sum())
        of_one, of_other = n / (mine.size - template), n / (theirs.size - template)
        if max(of_one, of_other) >= coverage:
            covered = _covered(words, one, other, GRAM, shared)
        elif n >= len(PASSAGE) - len(GRAM) + 1:  # so many 8-grams are 13 words in a row
            covered = _covered(words, one, other, PASSAGE, long)
        else:
            continue
        if covered.any():
            yield Overlap(one, other, max(of_one, of_other), of_other > of_one, covered)


def _covered(words: Tokens, one: int, other: int, shape: Shape, shared: Hashes) -> Mask:
    """Which words of `one` lie in an n-gram that both texts hold and few others do."""
    own, theirs = words.grams_of(one, shape), np.sort(words.grams_of(other, shape))
    starts = among(own, theirs) & ~among(own, shared)
    return np.convolve(starts, np.ones(len(shape), dtype=int)) > 0 if starts.any() else np.zeros(0, dtype=bool)


def _repeated(texts: Texts, shared: Hashes) -> tuple[Places, Hashes]:
    """Each 8-gram that occurs several times, once a text; those that many texts share are left out."""
    places, hashes = [np.zeros(0, np.int64)], [np.zeros(0, np.uint64)]
    for part in range(PARTS):
        repeated = _seen_twice(texts, part)
        repeated = repeated[~among(repeated, shared)]
        if not len(repeated):
            continue
        maybe = np.zeros(_FILTER, dtype=bool)
        maybe[repeated % _FILTER] = True
        for where, grams in texts.words.grams(GRAM):
            kept = maybe[grams % _FILTER]
            where, grams = where[kept], grams[kept]
            kept = among(grams, repeated)
            where, grams = distinct_a_text(where[kept], grams[kept])
            places.append(where)
            hashes.append(grams)
    return np.concatenate(places), np.concatenate(hashes)


def _seen_twice(texts: Texts, part: int) -> Hashes:
    """Sorted 8-grams of a part that occur more than once."""
    own = [np.zeros(0, np.uint64)]
    for _, grams in texts.words.grams(GRAM):
        own.append(grams[grams >> np.uint64(62) == part])
    ordered = np.sort(np.concatenate(own))
    return np.unique(ordered[1:][ordered[1:] == ordered[:-1]])


def _pairs(where: Places, grams: Hashes, n_texts: int) -> Iterator[tuple[int, int, int]]:
    """Pairs of texts and how many 8-grams they have in common."""
    order = np.lexsort((where, grams))
    where, grams = where[order], grams[order]
    found = [np.zeros(0, np.int64)]
    for distance in range(1, min(CROWD, len(where))):
        same = np.flatnonzero(grams[distance:] == grams[:-distance])
        if not len(same):
            break
        found.append(where[same] * n_texts + where[same + distance])
    numbers, common = np.unique(np.concatenate(found), return_counts=True)
    for number, n in zip(numbers.tolist(), common.tolist(), strict=True):
        yield number // n_texts, number % n_texts, n
