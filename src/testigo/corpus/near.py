"""Near-duplicates by MinHash: candidates from signatures, each verified by its exact Jaccard similarity.

Source: Broder 1997, "On the resemblance and containment of documents"; banding as in Leskovec, Rajaraman and Ullman,
"Mining of Massive Datasets", chapter 3.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from testigo.corpus.duplicates import normalised

PERMUTATIONS = 128
WORDS = 5  # words of a shingle
SHORT = 2 * WORDS  # texts with fewer words have too few word shingles: they are compared by characters
_PRIME = np.uint64((1 << 31) - 1)  # a Mersenne prime: products of two 31-bit numbers fit into 64 bits

Signatures = npt.NDArray[np.uint64]


def near_pairs(texts: Sequence[str], similarity: float) -> tuple[tuple[int, int, float], ...]:
    """Pairs of places whose texts have at least this Jaccard similarity of shingles, with the similarity.

    Of texts that are equal after normalisation each later one is paired, with 1.0, with the first alone, and the first
    stands for all of them: a thousand copies are a thousand pairs, not half a million.
    """
    first: dict[str, int] = {}
    copies = []
    for place, text in enumerate(texts):
        kept = first.setdefault(normalised(text), place)
        if kept != place:
            copies.append((kept, place, 1.0))
    places = list(first.values())
    shingles = [_shingles(text) for text in first]
    pairs = []
    for one, other in _candidates(_signatures(shingles), similarity):
        common = np.intersect1d(shingles[one], shingles[other], assume_unique=True).size
        jaccard = common / (shingles[one].size + shingles[other].size - common)
        if jaccard >= similarity:
            pairs.append((places[one], places[other], round(jaccard, 6)))
    return tuple(sorted(copies + pairs))


def _shingles(text: str) -> npt.NDArray[np.uint64]:
    """Distinct 31-bit hashes of the shingles of a text: word shingles, or of short texts character shingles."""
    words = text.split()
    if len(words) >= SHORT:
        parts = {" ".join(words[at : at + WORDS]) for at in range(len(words) - WORDS + 1)}
    else:
        parts = {text[at : at + WORDS] for at in range(max(1, len(text) - WORDS + 1))}
    hashes = (hashlib.blake2b(part.encode(), digest_size=8).digest() for part in parts)
    numbers = np.frombuffer(b"".join(hashes), dtype="<u8")
    return np.unique(numbers.astype(np.uint64) % _PRIME)


def _signatures(shingles: Sequence[npt.NDArray[np.uint64]]) -> Signatures:
    """The least value of each permutation h -> (a·h + b) mod p over a text's shingles: (texts, permutations)."""
    random = np.random.default_rng(1997)  # fixed: the same texts give the same pairs on any machine
    a = random.integers(1, int(_PRIME), PERMUTATIONS, dtype=np.uint64)
    b = random.integers(0, int(_PRIME), PERMUTATIONS, dtype=np.uint64)
    signatures = np.empty((len(shingles), PERMUTATIONS), dtype=np.uint64)
    for place, hashes in enumerate(shingles):
        signatures[place] = ((hashes[:, None] * a + b) % _PRIME).min(axis=0)  # (shingles, permutations) -> minimum
    return signatures


def _candidates(signatures: Signatures, similarity: float) -> set[tuple[int, int]]:
    """Pairs that agree in all of the rows of at least one band.

    With r rows a band, a pair of similarity s is missed with probability (1 - s^r)^(128 / r). The largest r is taken
    that misses less than one pair in a thousand at the limit; exact verification follows, so a small r costs only time.
    """
    divisors = [r for r in range(1, PERMUTATIONS + 1) if PERMUTATIONS % r == 0]
    r = max([r for r in divisors if (1 - similarity**r) ** (PERMUTATIONS // r) < 1e-3], default=1)
    pairs: set[tuple[int, int]] = set()
    for start in range(0, PERMUTATIONS, r):
        band = np.ascontiguousarray(signatures[:, start : start + r])
        members: dict[bytes, list[int]] = defaultdict(list)
        for place in range(len(band)):
            members[band[place].tobytes()].append(place)
        for places in members.values():
            pairs.update(_pairs(places))
    return pairs


def _pairs(places: list[int]) -> Iterator[tuple[int, int]]:
    for at, one in enumerate(places):
        for other in places[at + 1 :]:
            yield one, other
