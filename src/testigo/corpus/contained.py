"""Short texts that stand whole in another: a copy with words added before, after or between.

Shingles do not find these: four words spread over a row of fifteen break most of them. All words of the shorter text
are looked for in the longer one, in their order; where words lie between, the longer may have twice the words, or
twelve more.

Source: whole-text matching of items that are shorter than an n-gram, Brown et al. 2020, "Language models are few-shot
learners", appendix C; the allowance for words between is ours.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from testigo.corpus.texts import Texts, frequencies
from testigo.corpus.tokens import Hashes, Places, Tokens, among

FEWEST, MOST = 3, 64  # words of a text that is looked for; longer ones are found by their 8-grams
LONGER, ADDED = 2, 12  # with words between, the longer text may have twice the words, or so many more
_AT_ONCE = 1_000_000  # pairs that are filtered at once


def contained(texts: Texts) -> Iterator[tuple[int, int]]:
    """(shorter, longer) texts, of which the longer holds all words of the shorter in order."""
    words = texts.words
    items = np.flatnonzero((words.lengths >= FEWEST) & (words.lengths <= MOST))
    if not len(items):
        return
    rarest = _rarest(texts, items)
    marks = _marks(words)
    for shorter, longer in _with_the_word(words, items, rarest):
        maybe = (shorter != longer) & (words.lengths[shorter] < words.lengths[longer])
        shorter, longer = shorter[maybe], longer[maybe]
        for at in range(0, len(shorter), _AT_ONCE):
            a, b = shorter[at : at + _AT_ONCE], longer[at : at + _AT_ONCE]
            inside = ((marks[a] & ~marks[b]) == 0).all(axis=1)
            for one, other in zip(a[inside].tolist(), b[inside].tolist(), strict=True):
                if _holds(words.of(other).tolist(), words.of(one).tolist()):
                    yield one, other


def _rarest(texts: Texts, items: Places) -> Hashes:
    """For each item its word that stands in the fewest rows of the sample."""
    known, counts = frequencies(texts.words, (0,), texts)
    rarest = np.empty(len(items), dtype=np.uint64)
    for number, item in enumerate(items):
        own = texts.words.grams_of(int(item), (0,))
        found = np.minimum(np.searchsorted(known, own), len(known) - 1)
        often = np.where(known[found] == own, counts[found], 0)
        rarest[number] = own[np.lexsort((own, often))[0]]
    return rarest


def _marks(words: Tokens) -> Hashes:
    """A set of 256 bits a text, one for each of its words: (texts, 4). What lacks a bit lacks a word (Bloom 1970)."""
    marks = np.zeros((len(words), 4), dtype=np.uint64)
    owner = np.repeat(np.arange(len(words)), words.lengths)
    bits = (words.hashes >> np.uint64(8)) % np.uint64(256)
    np.bitwise_or.at(marks, (owner, (bits >> np.uint64(6)).astype(np.int64)), np.uint64(1) << (bits % np.uint64(64)))
    return marks


def _with_the_word(words: Tokens, items: Places, rarest: Hashes) -> Iterator[tuple[Places, Places]]:
    """(items, texts) that hold the item's rarest word, a block of texts at a time."""
    order = np.argsort(rarest, kind="stable")
    keys, items = rarest[order], items[order]
    for owners, hashes in words.grams((0,)):
        kept = among(hashes, keys)
        owners, hashes = owners[kept], hashes[kept]
        starts, ends = np.searchsorted(keys, hashes, "left"), np.searchsorted(keys, hashes, "right")
        for block in _blocks(ends - starts):
            n = (ends - starts)[block]
            within = np.arange(n.sum()) - np.repeat(np.cumsum(n) - n, n)
            shorter, longer = items[np.repeat(starts[block], n) + within], np.repeat(owners[block], n)
            both = np.unique(np.stack([shorter, longer], axis=1), axis=0)
            yield both[:, 0], both[:, 1]


def _blocks(counts: npt.NDArray[np.int64]) -> Iterator[slice]:
    """Runs of entries whose counts sum to about `_AT_ONCE`."""
    ends = np.cumsum(counts)
    start = 0
    while start < len(counts):
        before = ends[start - 1] if start else 0
        stop = max(int(np.searchsorted(ends, before + _AT_ONCE, "right")), start + 1)
        yield slice(start, stop)
        start = stop


def _holds(longer: list[int], shorter: list[int]) -> bool:
    """Whether all words of the shorter text stand in the longer, in order: with gaps, or in a row."""
    if len(longer) <= max(LONGER * len(shorter), len(shorter) + ADDED):
        rest = iter(longer)
        return all(word in rest for word in shorter)
    n = len(shorter)
    return any(longer[at : at + n] == shorter for at, word in enumerate(longer) if word == shorter[0])
