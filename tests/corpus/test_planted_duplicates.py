"""Copies planted among ten thousand rows, and templated rows without a copy."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testigo.corpus.searching import Limits, alike

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


@pytest.mark.parametrize(
    ("kind", "change", "least"),
    [
        ("words inserted", lambda order, text: with_words(order, text, 3), 0.98),
        ("many words inserted", lambda order, text: with_words(order, text, order.randint(4, 12)), 0.95),
        ("words swapped", with_swaps, 0.95),
        ("a word changed", lambda order, text: text.replace(text.split()[7], "changed", 1), 0.98),
        ("a greeting before", lambda order, text: "good morning to all of you out there " + text, 0.98),
    ],
)
def test_copies_in_language_are_found(
    kind: str,
    change: Callable[[random.Random, str], str],
    least: float,
    letters_and_orders: Rows,
    record_property: Callable[[str, object], None],
) -> None:
    order = random.Random(kind)
    chosen = order.sample(range(5000), 500)
    rows, pairs = plant(letters_and_orders[:9500], [(at, change(order, letters_and_orders[at][0])) for at in chosen])
    found = search(rows)
    record_property(f"recall, {kind}", recall(found, pairs))
    assert recall(found, pairs) >= least, kind
    assert set(found) <= set(pairs), "nothing else is called a copy"


@pytest.fixture(scope="module")
def letters_and_orders() -> Rows:
    return letters(5000) + orders(4500)[0]


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
