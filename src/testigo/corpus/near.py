"""Near-duplicates by MinHash: candidates from signatures, each verified by its exact Jaccard similarity.

Words are taken five at a time; short texts are also compared by five characters, since a word more or less leaves few
of their word shingles. Shingles that many texts share do not count.

Source: Broder 1997, "On the resemblance and containment of documents"; banding as in Leskovec, Rajaraman and Ullman,
"Mining of Massive Datasets", chapter 3.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from testigo.corpus.engine import PERMUTATIONS, band_keys
from testigo.corpus.texts import Texts, shared_grams
from testigo.corpus.tokens import Hashes, Places, Tokens, among, character_tokens, row_of

SHINGLE = 5  # words or characters
_SHAPE = row_of(SHINGLE)
FEW_WORDS = 2 * SHINGLE  # texts with fewer words are compared by characters alone
SHORT = 8 * SHINGLE  # texts with fewer words are compared by characters too: of 20 words, one breaks 5 of 16 shingles
MISSED = 0.02  # pairs exactly at the limit that banding may miss; of pairs 0.05 above it fewer than one in 900
CROWD = 100  # of a bucket with more texts, each is compared with so many others, in another order in each band
AT_ONCE = 100_000  # texts for which the engine makes keys at a time

Pairs = dict[tuple[int, int], float]
"""Two places in `Texts`, the lower first, and their similarity."""


def near_texts(texts: Texts, similarity: float, engine: str = "local") -> Pairs:
    """Pairs of distinct texts: the higher similarity of words and, for short ones, of characters."""
    lengths = texts.words.lengths
    long = np.flatnonzero(lengths >= FEW_WORDS)
    pairs = _near(texts, texts.words, long, similarity, engine)
    short = np.flatnonzero(lengths < SHORT)
    spelled = character_tokens([texts.normalised[text] for text in short])
    own = Texts(
        tuple(_letters(texts.normalised[text]) for text in short),
        tuple((int(text),) for text in short),
        np.flatnonzero(np.isin(short, texts.sample)),
        texts.counted_as[short],
    )
    by_letter = _near(own, spelled, np.flatnonzero(spelled.lengths >= SHINGLE), similarity, engine)
    for (one, other), jaccard in by_letter.items():
        pair = (int(short[one]), int(short[other]))
        pairs[pair] = max(jaccard, pairs.get(pair, 0.0))
    return pairs


def _letters(text: str) -> str:
    """A text's characters as words, for an engine that knows shingles of words."""
    return " ".join(text.replace(" ", "_"))


def _near(texts: Texts, tokens: Tokens, chosen: Places, similarity: float, engine: str) -> Pairs:
    if len(chosen) < 2:
        return {}
    shared = shared_grams(tokens, _SHAPE, texts)
    r = rows_a_band(similarity)
    keys, places = [], []
    for at in range(0, len(chosen), AT_ONCE):
        block = chosen[at : at + AT_ONCE]
        spoken = _without_shared(texts, tokens, block, shared)
        own = np.array([text for text in block if spoken.get(text, " ")], dtype=np.int64)
        if not len(own):
            continue
        table = band_keys([spoken.get(text) or texts.normalised[text] for text in own], SHINGLE, r, engine)
        keys.append(np.stack([np.asarray(table[f"key{band}"]) for band in range(PERMUTATIONS // r)]))
        places.append(own)
    if not keys:
        return {}
    pairs: Pairs = {}
    sets: dict[int, Hashes] = {}
    for one, other in _candidates(np.concatenate(keys, axis=1), np.concatenate(places)):
        if one not in sets:  # the pairs come ordered by their first text
            sets = {one: np.unique(tokens.grams_of(one, _SHAPE))}
        jaccard = _jaccard(sets[one], np.unique(tokens.grams_of(other, _SHAPE)), shared)
        if jaccard >= similarity:
            pairs[one, other] = round(jaccard, 6)
    return pairs


def rows_a_band(similarity: float) -> int:
    """How many of the permutations make one key.

    With r of them a key, a pair of similarity s is missed with probability (1 - s^r)^(128 / r). The largest r is taken
    that misses at most `MISSED` of the pairs at the limit; exact verification follows, so a small r costs only time.
    """
    fits = [r for r in range(1, PERMUTATIONS + 1) if (1 - similarity**r) ** (PERMUTATIONS // r) <= MISSED]
    return max(fits, default=1)


def _without_shared(texts: Texts, tokens: Tokens, block: Places, shared: Hashes) -> dict[int, str]:
    """For the texts of a block that hold shared shingles: the words of their other shingles, one after the other."""
    if not len(shared):
        return {}
    spoken = {}
    for owners, hashes in tokens.grams(_SHAPE, block):
        for text in np.unique(owners[among(hashes, shared)]):
            own = ~among(tokens.grams_of(int(text), _SHAPE), shared)
            kept = np.convolve(own, np.ones(SHINGLE, dtype=int)) > 0
            words = texts.normalised[text].split(" ")
            spoken[int(text)] = " ".join(word for word, is_kept in zip(words, kept, strict=True) if is_kept)
    return spoken


def _jaccard(one: Hashes, other: Hashes, shared: Hashes) -> float:
    """The similarity without the shared shingles that both hold; a shared one that only one holds is a difference."""
    common = np.intersect1d(one, other, assume_unique=True)
    template = int(among(common, shared).sum())
    return (common.size - template) / max(one.size + other.size - common.size - template, 1)


def _candidates(keys: Hashes, places: Places) -> Iterator[tuple[int, int]]:
    """Pairs that agree in at least one key, each once, in order. `keys` has the shape (bands, texts)."""
    found = [np.zeros((0,), dtype=np.int64)]
    n = int(places.max()) + 1
    random = np.random.default_rng(1997)  # fixed: the same texts give the same pairs on any machine
    for band in keys:
        mixed = random.permutation(len(places))  # in a crowd each band shows each text to others
        order = mixed[np.argsort(band[mixed], kind="stable")]
        ordered = band[order]
        for distance in range(1, min(CROWD, len(places))):
            same = np.flatnonzero(ordered[distance:] == ordered[:-distance])
            if not len(same):
                break
            ends = np.sort(places[np.stack([order[same], order[same + distance]])], axis=0)
            found.append(ends[0] * n + ends[1])
    for number in np.unique(np.concatenate(found)):
        yield int(number // n), int(number % n)
