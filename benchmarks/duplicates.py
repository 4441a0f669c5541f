"""The search for duplicates beside datasketch and rensa: same rows, one run, each in a process of its own.

    python benchmarks/duplicates.py [ROWS] [NAME …]          # 100,000 rows and all of them by default

`product` is what a corpus is searched with: `alike` over prompts beside their answers, then over answers. `near` is
the part of it that the other libraries do as well: pairs of one list of texts by MinHash. Prints recall of the planted
pairs of Jaccard similarity 0.85 and more; of the pairs that were named, the shares at the limit (0.8) and of planted
copies; documents a second, and the peak of the resident memory; ratios are to the first that is named. Needs the extra
`benchmarks`.
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
ANSWER_WORDS = 12
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


def answers(n: int) -> list[str]:
    """What each of the rows answers: a copy the same as its original."""
    order = np.random.default_rng(1)
    own = [" ".join(f"w{word}" for word in order.integers(0, 30_000, ANSWER_WORDS)) for _ in range(n)]
    for copy in range(19, n, 20):
        own[copy] = own[copy - 1]
    return own


def near(texts: list[str]) -> Pairs:
    from testigo.corpus.near import near_texts
    from testigo.corpus.texts import Texts

    distinct = Texts.of(texts)
    return {(distinct.rows[one][0], distinct.rows[other][0]) for one, other in near_texts(distinct, LIMIT)}


def product(texts: list[str]) -> Pairs:
    from testigo.corpus.searching import Limits, alike

    beside = answers(len(texts))
    by_prompt = alike(texts, Limits(near=LIMIT), beside=beside)
    alike(beside, Limits(near=LIMIT))  # equal answers are no pairs of it: a row's copies are known by their prompts
    return set(by_prompt)


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


FINDERS: dict[str, Callable[[list[str]], Pairs]] = {
    "near": near,
    "product": product,
    "datasketch": datasketch,
    "rensa": rensa,
}


def measured(name: str, n: int) -> dict[str, float]:
    texts, planted = rows(n)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    found = FINDERS[name](texts)
    seconds = time.perf_counter() - started
    sure = {pair for pair, similarity in planted.items() if similarity >= SURE}
    at_limit = {pair for pair in found if jaccard(texts[pair[0]], texts[pair[1]]) >= LIMIT}
    return {
        "recall": len(found & sure) / len(sure),
        "at_limit": len(at_limit) / max(len(found), 1),
        "planted": len(found & planted.keys()) / max(len(found), 1),
        "documents_a_second": n / seconds,
        "resident_peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "before_gib": before / 2**20,
        "seconds": seconds,
    }


def main() -> None:
    if sys.argv[1:2] == ["--in-this-process"]:
        print(json.dumps(measured(sys.argv[3], int(sys.argv[2]))))
        return
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    ours: dict[str, float] = {}
    print(f"{n:,} texts of {WORDS} words, {PERMUTATIONS} permutations, {SHINGLE}-word shingles, limit {LIMIT}")
    print(
        f"{'':12}{'recall':>8}{'>= limit':>10}{'planted':>9}{'documents/s':>13}{'ratio':>7}{'peak GiB':>10}"
        f"{'ratio':>7}{'s':>8}"
    )
    for name in sys.argv[2:] or FINDERS:
        command = [sys.executable, __file__, "--in-this-process", str(n), name]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        own = json.loads(done.stdout.splitlines()[-1])
        ours = ours or own
        speed = own["documents_a_second"] / ours["documents_a_second"]
        memory = own["resident_peak_gib"] / ours["resident_peak_gib"]
        print(
            f"{name:12}{own['recall']:8.4f}{own['at_limit']:10.4f}{own['planted']:9.4f}"
            f"{own['documents_a_second']:13,.0f}{speed:7.2f}{own['resident_peak_gib']:10.2f}{memory:7.2f}"
            f"{own['seconds']:8.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
