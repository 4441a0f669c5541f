"""Copies planted among ten thousand rows, and templated rows without a copy."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testigo.campaign import load
from testigo.corpus import Corpus, build
from testigo.corpus.searching import Limits, alike
from testigo.corpus.storage import read_index

CITIES = [
    "Madrid",
    "Lisbon",
    "Porto",
    "Lyon",
    "Paris",
    "Rome",
    "Milan",
    "Turin",
    "Ghent",
    "Bruges",
    "Berlin",
    "Munich",
    "Hamburg",
    "Vienna",
    "Graz",
    "Oslo",
]
ITEMS = [
    "boxes",
    "bottles",
    "crates",
    "pens",
    "lamps",
    "chairs",
    "desks",
    "cables",
    "screens",
    "mugs",
    "plates",
    "forks",
    "spoons",
    "towels",
    "clocks",
]
NAMES = [
    f"{a} {b}"
    for a in ["Ana", "Luis", "Marta", "Pedro", "Clara", "Nils", "Hugo"]
    for b in ["Lopez", "Silva", "Costa", "Ramos"]
]
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
FILLERS = ["please", "really", "very", "indeed", "quickly", "now", "kindly", "again", "too", "also"]
ENGLISH = [
    "Dear team, we would like to order {n} {item} for {city}. Delivery is needed on {day}. Regards, {name}",
    "Hello! Could you ship {n} {item} to {city}? We need them by {day} at the latest. {name}",
    "Hi, this is {name}. My company in {city} wants {n} {item}, please deliver on {day}.",
]
SPANISH = "Buenos días, necesitamos {n} {item} en {city} antes del {day}. Un saludo cordial de {name}"
CLASSES = {
    "refund": "I want my money back for the {item} that I bought in {city} last {day}, order number {n}",
    "delivery": "Where is my parcel with the {item}? It should have come to {city} on {day}, order number {n}",
    "damage": "The {item} arrived broken in {city} on {day} and I am very unhappy about it, order number {n}",
}
Rows = list[tuple[str, str]]
"""What a row asks and what it answers."""


def slots(order: random.Random, most: int = 5000) -> dict[str, Any]:
    return {
        "n": order.randint(1, most),
        "item": order.choice(ITEMS),
        "city": order.choice(CITIES),
        "day": order.choice(DAYS),
        "name": order.choice(NAMES),
    }


def orders(n: int, seed: int = 0) -> tuple[Rows, list[dict[str, Any]]]:
    """Different orders in three templates, and their slots."""
    order, rows, values, seen = random.Random(seed), [], [], set()
    while len(rows) < n:
        own = slots(order)
        answer = f"{own['n']} {own['item']} to {own['city']} on {own['day']}"
        if answer not in seen:  # the same order in other words would be a copy
            seen.add(answer)
            rows.append((order.choice(ENGLISH).format(**own), answer))
            values.append(own)
    return rows, values


def tickets(n: int) -> Rows:
    order = random.Random(1)
    texts: dict[str, str] = {}
    while len(texts) < n:
        label = order.choice([*CLASSES])
        texts.setdefault(CLASSES[label].format(**slots(order, 99_999)), label)
    return list(texts.items())


def letters(n: int, words: int = 40, seed: int = 2) -> Rows:
    """Texts without a template: words by Zipf's law, as in language (Zipf 1935)."""
    order = random.Random(seed)
    vocabulary = ["".join(order.choices("abcdefghilmnoprstuv", k=2 + k.bit_length() // 2)) for k in range(6000)]
    weights = [1 / (k + 1) for k in range(6000)]
    return [(" ".join(order.choices(vocabulary, weights, k=words)), f"answer {k}") for k in range(n)]


def with_words(order: random.Random, text: str, n: int) -> str:
    words = text.split()
    for _ in range(n):
        words.insert(order.randint(0, len(words)), order.choice(FILLERS))
    return " ".join(words)


def with_swaps(order: random.Random, text: str, n: int = 2) -> str:
    words = text.split()
    for at in order.sample(range(len(words) - 1), n):
        words[at], words[at + 1] = words[at + 1], words[at]
    return " ".join(words)


def built_of(folder: Path, rows: list[dict[str, str]]) -> Corpus:
    """The corpus of rows, as a campaign with the defaults builds it."""
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    campaign = {
        "campaign": "planted",
        "question": "Are copies found?",
        "task": {"kind": "generation", "input": "text", "target": "answer"},
        "hypothesis": {"improve": {"metric": "exact_match", "by": 0.1}},
        "data": {"source": "rows.jsonl", "split": {"validation": 0.2, "test": 0.2}},
        "model": {"base": "path:base"},
        "training": {"updates": 2, "microbatch": 1, "learning_rate": 1e-3},
        "evaluation": {"max_new_tokens": 8},
    }
    (folder / "base").mkdir()
    (folder / "base" / "config.json").write_text("{}")
    (folder / "campaign.yaml").write_text(json.dumps(campaign))  # JSON is YAML
    return build(load(folder / "campaign.yaml"), lambda fingerprint: folder / fingerprint, lambda _: [])


def search(rows: Rows) -> dict[tuple[int, int], str]:
    """Kind by pair of places; exact copies are those of `find_copies`, and no matter here."""
    found = alike([text for text, _ in rows], Limits(), beside=[answer for _, answer in rows])
    return {pair: likeness.kind for pair, likeness in found.items()}


def recall(found: dict[tuple[int, int], str], pairs: Sequence[tuple[int, int]]) -> float:
    return sum(pair in found for pair in pairs) / len(pairs)


def plant(rows: Rows, copies: Sequence[tuple[int, str]]) -> tuple[Rows, list[tuple[int, int]]]:
    """The rows and copies of some, and the pairs of places that should be found."""
    whole = rows + [(text, rows[original][1]) for original, text in copies]
    return whole, [(original, len(rows) + k) for k, (original, _) in enumerate(copies)]


CHANGES: dict[str, tuple[Callable[[random.Random, str], str], float]] = {
    "exact": (lambda _, text: text, 1.0),
    "case and space": (lambda order, text: "  ".join(order.choice([w.upper(), w.title()]) for w in text.split()), 1.0),
    "words inserted": (lambda order, text: with_words(order, text, 3), 0.98),
    "many words inserted": (lambda order, text: with_words(order, text, order.randint(4, 12)), 0.95),
    "words swapped": (with_swaps, 0.95),
    "a word changed": (lambda _, text: text.replace(text.split()[7], "changed", 1), 0.98),
    "a greeting before": (lambda _, text: "good morning to all of you out there " + text, 0.98),
}
"""Each kind of copy: how it is made, and the least share of them that is found."""


@pytest.mark.parametrize("kind", [kind for kind in CHANGES if kind not in ("exact", "case and space")])
def test_copies_in_language_are_found(
    kind: str, letters_and_orders: Rows, record_property: Callable[[str, object], None]
) -> None:
    (change, least), order = CHANGES[kind], random.Random(kind)
    chosen = order.sample(range(5000), 500)
    rows, pairs = plant(letters_and_orders[:9500], [(at, change(order, letters_and_orders[at][0])) for at in chosen])
    found = search(rows)
    record_property(f"recall, {kind}", recall(found, pairs))
    assert recall(found, pairs) >= least, kind
    assert set(found) <= set(pairs), "nothing else is called a copy"


@pytest.fixture(scope="module")
def letters_and_orders() -> Rows:
    return letters(5000) + orders(4500)[0]


def test_a_corpus_with_copies_of_all_kinds_drops_or_keeps_together_what_it_finds(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    import pyarrow.parquet as pq

    order, kinds = random.Random(7), [*CHANGES]
    originals = letters(4000) + orders(2500)[0]
    chosen = order.sample(range(4000), 500 * len(kinds))
    rows = [{"id": f"a{n:05d}", "text": text, "answer": answer} for n, (text, answer) in enumerate(originals)]
    planted: dict[str, list[tuple[str, str]]] = {kind: [] for kind in kinds}
    for n, at in enumerate(chosen):
        kind, text = kinds[n % len(kinds)], originals[at][0]
        rows.append({"id": f"b{n:05d}", "text": CHANGES[kind][0](order, text), "answer": originals[at][1]})
        planted[kind].append((f"a{at:05d}", f"b{n:05d}"))
    assert len(rows) == 10_000
    corpus = built_of(tmp_path, rows)
    split_of = {row: split for row, (split, _) in read_index(corpus).items()}
    assert set(split_of.values()) == {"train", "validation", "test"}
    told = pq.read_table(corpus.folder / "duplicates.parquet").to_pylist()
    found = {frozenset((pair["one"], pair["other"])) for pair in told}
    for kind, pairs in planted.items():
        share = sum(frozenset(pair) in found for pair in pairs) / len(pairs)
        record_property(f"told, {kind}", share)
        assert share >= CHANGES[kind][1], kind
        if kind in ("exact", "case and space"):
            assert all(one in split_of and copy not in split_of for one, copy in pairs), "the copies are left out"
            continue
        straddling = [pair for pair in pairs if split_of[pair[0]] != split_of[pair[1]]]
        record_property(f"in two splits, {kind}", len(straddling) / len(pairs))
        assert not [pair for pair in straddling if frozenset(pair) in found], kind
        assert len(straddling) <= (1 - CHANGES[kind][1]) * len(pairs), kind
    assert found <= {frozenset(pair) for pairs in planted.values() for pair in pairs}, "nothing else is called a copy"
    proofs = corpus.manifest["split"]["proofs"]
    assert all(proofs[kind]["n_across"] == 0 for kind in ("exact", "near", "contained", "overlap", "conflicts"))


def test_copies_of_templated_rows_are_found_by_their_content(
    record_property: Callable[[str, object], None],
) -> None:
    rows, values = orders(8000)
    order = random.Random(5)
    inserted = [(at, with_words(order, rows[at][0], 4)) for at in order.sample(range(8000), 500)]
    whole, pairs = plant(rows, inserted)
    found = search(whole)
    assert recall(found, pairs) >= 0.98
    assert set(found) <= set(pairs)
    # A copy in another template has no run of words in common with its original: what can be found is told, not hidden.
    translated = [(at, SPANISH.format(**values[at])) for at in order.sample(range(8000), 500)]
    whole, pairs = plant(rows, translated)
    found = search(whole)
    record_property("recall, translated template", recall(found, pairs))
    assert set(found) <= set(pairs)


@pytest.mark.parametrize("n", [400, 10_000])
def test_templated_rows_without_copies_are_silent(n: int) -> None:
    assert search(orders(n)[0]) == {}
    assert search(tickets(n)) == {}


@pytest.mark.parametrize("n_added", range(4, 13))
def test_four_to_twelve_words_in_a_row_of_fifteen_do_not_hide_it(n_added: int) -> None:  # C56
    rows = letters(300, words=15)
    order = random.Random(n_added)
    whole, pairs = plant(rows, [(at, with_words(order, rows[at][0], n_added)) for at in range(0, 300, 15)])
    found = search(whole)
    assert set(found) == set(pairs)


@settings(max_examples=15, deadline=None)
@given(st.randoms(use_true_random=False))
def test_the_pairs_do_not_depend_on_the_order_of_the_rows(random_order: random.Random) -> None:
    rows = letters(60, words=20)
    rows += [(with_words(random.Random(at), rows[at][0], 2), rows[at][1]) for at in range(0, 60, 6)]
    places = list(range(len(rows)))
    random_order.shuffle(places)
    mixed = {frozenset((places[a], places[b])) for a, b in search([rows[place] for place in places])}
    assert mixed == {frozenset(pair) for pair in search(rows)}
    assert len(mixed) == 10


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 39), st.sampled_from(["upper", "title", "swapcase"]), st.integers(1, 4))
def test_case_and_spaces_never_hide_a_copy(at: int, case: str, n_spaces: int) -> None:
    rows = letters(40, words=25)
    text = getattr(with_words(random.Random(at), rows[at][0], 1), case)().replace(" ", " " * n_spaces)
    assert set(search([*rows, (text, rows[at][1])])) == {(at, 40)}
