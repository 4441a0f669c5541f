"""Near-duplicates beside datasketch and rensa: same rows, same permutations, one run, each in a process of its own.

    python benchmarks/duplicates.py [ROWS]          # 100,000 by default

Prints recall of the planted pairs of Jaccard similarity 0.85 and more, precision after exact verification (theirs:
of their candidates), documents a second, and the peak of the resident memory; ours is 1. Needs the extra `benchmarks`.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

WORDS, PERMUTATIONS, SHINGLE, LIMIT, SURE = 100, 128, 5, 0.8, 0.85
Pairs = set[tuple[int, int]]


def rows(n: int) -> tuple[list[str], dict[tuple[int, int], float]]:
    """Texts of 100 words, of which one in twenty is a copy with words changed; and the similarity of each pair."""
    order = np.random.default_rng(0)
    words = np.array([f"{a}{b}{c}" for a in "bcdfghlmnprstv" for b in "aeiou" for c in range(400)], dtype=object)
    texts, pairs = [" ".join(words[order.integers(0, len(words), WORDS)]) for _ in range(n)], {}
    for copy in range(19, n, 20):
        original, changed = copy - 1, texts[copy - 1].split()
        for at in order.integers(0, WORDS, order.integers(1, 5)):
            changed[at] = "other"
        texts[copy] = " ".join(changed)
        pairs[original, copy] = jaccard(texts[original], texts[copy])
    return texts, pairs


def shingles(text: str) -> set[str]:
    words = text.split()
    return {" ".join(words[at : at + SHINGLE]) for at in range(len(words) - SHINGLE + 1)}


def jaccard(one: str, other: str) -> float:
    a, b = shingles(one), shingles(other)
    return len(a & b) / len(a | b)


def testigo(texts: list[str]) -> Pairs:
    from testigo.corpus.near import near_pairs

    return {(one, other) for one, other, _ in near_pairs(texts, LIMIT)}


def datasketch(texts: list[str]) -> Pairs:
    from datasketch import MinHash, MinHashLSH

    index, pairs = MinHashLSH(threshold=LIMIT, num_perm=PERMUTATIONS), set()
    for place, text in enumerate(texts):
        signature = MinHash(num_perm=PERMUTATIONS)
        signature.update_batch([shingle.encode() for shingle in shingles(text)])
        pairs |= {(other, place) for other in index.query(signature)}
        index.insert(place, signature, check_duplication=False)
    return pairs


def rensa(texts: list[str]) -> Pairs:
    from rensa import RMinHash, RMinHashLSH

    index, pairs = RMinHashLSH(threshold=LIMIT, num_perm=PERMUTATIONS, num_bands=16), set()
    for place, text in enumerate(texts):
        signature = RMinHash(num_perm=PERMUTATIONS, seed=42)
        signature.update(list(shingles(text)))
        pairs |= {(other, place) for other in index.query(signature)}
        index.insert(place, signature)
    return pairs


FINDERS: dict[str, Callable[[list[str]], Pairs]] = {"testigo": testigo, "datasketch": datasketch, "rensa": rensa}


def measured(name: str, n: int) -> dict[str, float]:
    texts, planted = rows(n)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    found = FINDERS[name](texts)
    seconds = time.perf_counter() - started
    sure = {pair for pair, similarity in planted.items() if similarity >= SURE}
    right = {pair for pair in found if jaccard(texts[pair[0]], texts[pair[1]]) >= LIMIT}
    return {
        "recall": len(found & sure) / len(sure),
        "precision": len(right) / max(len(found), 1),
        "documents_a_second": n / seconds,
        "resident_peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "before_gib": before / 2**20,
        "seconds": seconds,
    }


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    if len(sys.argv) > 2:
        print(json.dumps(measured(sys.argv[2], n)))
        return
    ours: dict[str, float] = {}
    print(f"{n:,} texts of {WORDS} words, {PERMUTATIONS} permutations, {SHINGLE}-word shingles, limit {LIMIT}")
    print(f"{'':12}{'recall':>8}{'precision':>11}{'documents/s':>13}{'ratio':>7}{'peak GiB':>10}{'ratio':>7}{'s':>8}")
    for name in FINDERS:
        done = subprocess.run([sys.executable, __file__, str(n), name], capture_output=True, text=True, check=True)
        own = json.loads(done.stdout.splitlines()[-1])
        ours = ours or own
        speed = own["documents_a_second"] / ours["documents_a_second"]
        memory = own["resident_peak_gib"] / ours["resident_peak_gib"]
        print(
            f"{name:12}{own['recall']:8.4f}{own['precision']:11.4f}{own['documents_a_second']:13,.0f}{speed:7.2f}"
            f"{own['resident_peak_gib']:10.2f}{memory:7.2f}{own['seconds']:8.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
