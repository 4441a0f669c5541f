"""Texts as numbers: one hash a word or character, and the hashes of their n-grams, a block of texts at a time.

Equal n-grams have equal hashes; that two different ones of a billion share their 64 bits has a chance of about 3 in 100
(birthday bound), and a pair is only called by many of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Hashes = npt.NDArray[np.uint64]
Places = npt.NDArray[np.int64]

Shape = tuple[int, ...]
"""Offsets of the tokens of an n-gram from its first: (0, 1, 2) are three in a row, (0, 2) leaves out the middle one."""

BLOCK = 20_000  # texts at once: some tens of megabytes of hashes for texts of a hundred words
_STEP = np.uint64(0x9E3779B97F4A7C15)  # odd, from the golden ratio: Knuth, "The Art of Computer Programming", 6.4
_MIX = np.uint64(0xBF58476D1CE4E5B9)  # Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators"


def row_of(n: int) -> Shape:
    """The shape of n tokens in a row."""
    return tuple(range(n))


@dataclass(frozen=True)
class Tokens:
    """Texts, one after the other: text i is `hashes[starts[i]:starts[i + 1]]`."""

    hashes: Hashes
    starts: Places

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> Places:
        """Tokens of each text."""
        return np.diff(self.starts)

    def of(self, text: int) -> Hashes:
        """The tokens of one text, in order."""
        return self.hashes[self.starts[text] : self.starts[text + 1]]

    def grams_of(self, text: int, shape: Shape) -> Hashes:
        """The hashes of one text's n-grams, in order; none when it has too few tokens."""
        return _grams(self.of(text), shape)

    def grams(self, shape: Shape, chosen: Places | None = None) -> Iterator[tuple[Places, Hashes]]:
        """In blocks: the text of each n-gram, and its hash; of all texts or of the chosen ones, in order."""
        n = shape[-1] + 1
        every = np.arange(len(self)) if chosen is None else chosen
        for at in range(0, len(every), BLOCK):
            block = every[at : at + BLOCK]
            starts, ends = self.starts[block], self.starts[block + 1]
            if chosen is None:
                hashes = self.hashes[starts[0] : ends[-1]]
            else:
                hashes = np.concatenate([self.hashes[start:end] for start, end in zip(starts, ends, strict=True)])
            lengths = ends - starts
            left = np.repeat(np.cumsum(lengths), lengths) - np.arange(len(hashes))  # tokens to the text's end
            whole = left[: max(len(hashes) - n + 1, 0)] >= n
            yield np.repeat(block, lengths)[: len(whole)][whole], _grams(hashes, shape)[whole]


def word_tokens(texts: Sequence[str]) -> Tokens:
    """The words of normalised texts: what stands between single spaces."""
    import pyarrow as pa
    import pyarrow.compute as pc

    known: dict[str, int] = {}
    hashes, lengths = [np.zeros(0, np.uint64)], [np.zeros(1, np.int64)]
    for at in range(0, len(texts), BLOCK):
        lists = pc.split_pattern(pa.array(texts[at : at + BLOCK], pa.large_string()), " ")
        lengths.append(np.asarray(pc.list_value_length(lists), dtype=np.int64))
        words = lists.flatten().dictionary_encode()
        numbers = [known.get(word) or known.setdefault(word, _hash(word)) for word in words.dictionary.to_pylist()]
        hashes.append(np.array(numbers, dtype=np.uint64)[np.asarray(words.indices)])
    return Tokens(np.concatenate(hashes), np.cumsum(np.concatenate(lengths)))


def character_tokens(texts: Sequence[str]) -> Tokens:
    """The characters of texts."""
    whole = np.frombuffer("".join(texts).encode("utf-32-le"), dtype=np.uint32).astype(np.uint64)
    starts = np.cumsum([0, *(len(text) for text in texts)], dtype=np.int64)
    return Tokens(_mixed(whole + np.uint64(1)), starts)


def distinct_a_text(texts: Places, hashes: Hashes) -> tuple[Places, Hashes]:
    """Each pair of a text and a hash once, in no order of meaning."""
    both = _mixed(hashes + texts.astype(np.uint64) * _STEP)
    order = np.argsort(both)
    ordered = both[order]
    first = np.ones(len(order), dtype=bool)
    first[1:] = ordered[1:] != ordered[:-1]
    return texts[order[first]], hashes[order[first]]


def among(values: Hashes, ordered: Hashes) -> npt.NDArray[np.bool_]:
    """Which of the values stand in an array that is sorted."""
    if not len(ordered) or not len(values):
        return np.zeros(len(values), dtype=bool)
    found = np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)
    inside: npt.NDArray[np.bool_] = ordered[found] == values
    return inside


def _grams(tokens: Hashes, shape: Shape) -> Hashes:
    """A polynomial over the tokens of each n-gram, modulo 2^64, mixed: (len - n + 1,)."""
    size = max(len(tokens) - shape[-1], 0)
    total = np.zeros(size, dtype=np.uint64)
    for offset in shape if size else ():
        total = total * _STEP + tokens[offset : offset + size]
    return _mixed(total)


def _mixed(numbers: Hashes) -> Hashes:
    numbers = (numbers ^ (numbers >> np.uint64(30))) * _MIX
    return numbers ^ (numbers >> np.uint64(31))


def _hash(word: str) -> int:
    return int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest()) or 1
