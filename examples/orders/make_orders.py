"""Make the example rows again: `python make_orders.py > orders.jsonl`. The same seed gives the same bytes.

Each customer has habits: a language, a main domain, a favourite greeting and closing, a way of writing numbers, and
a kind of carelessness (small letters, capitals, missing accents, typing mistakes). An e-mail is a plan of sentences,
drawn one by one. What makes it more than a template: quantities that were cancelled, products that are not ordered,
cities that only pay, telephone and reference numbers. Product and city in the target stand exactly as the e-mail
writes them; quantity, unit and priority are normalised.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta

from phrases import CITIES, NAMES, NUMBERS, PRODUCTS, SENTENCES, TITLES, UNITS

DOMAINS = ("books", "hardware", "food", "stationery", "clothing", "lab")
LANGUAGES = ("en", "en", "en", "es", "pt", "fr")  # half in English: it is the base model's best language


@dataclass(frozen=True)
class Customer:
    """One customer and the habits that make the e-mails recognisable."""

    name: str
    language: str
    domain: str
    cities: tuple[str, ...]
    greets: float
    chatters: float
    words_for_numbers: float
    habit: Callable[[str], str]
    typo_share: float
    favourite: dict[str, str]


def small(text: str) -> str:
    return text.lower()


def shout(text: str) -> str:
    return text.upper()


def without_accents(text: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))


def plain(text: str) -> str:
    return text


def make_customer(rng: random.Random, used: set[str], number: int) -> Customer:
    language = rng.choice(LANGUAGES)
    first, last = NAMES[language]
    name = f"{rng.choice(first)} {rng.choice(last)}"
    while name in used:
        name = f"{rng.choice(first)} {rng.choice(last)}"
    used.add(name)
    return Customer(
        name=name,
        language=language,
        domain=DOMAINS[number % len(DOMAINS)],
        cities=tuple(rng.sample(CITIES[language], rng.choice((1, 2, 3)))),
        greets=rng.choice((0.0, 0.5, 0.9)),
        chatters=rng.choice((0.0, 0.3, 0.6)),
        words_for_numbers=rng.choice((0.0, 0.2, 0.8)),
        habit=rng.choices((plain, small, without_accents, shout), (60, 18, 18, 4))[0],
        typo_share=rng.choice((0.0, 0.0, 0.03, 0.08)),
        favourite={kind: rng.choice(SENTENCES[language][kind]) for kind in ("hello", "close", "order")},
    )


def draw_product(rng: random.Random, language: str, domain: str) -> tuple[str, str]:
    """A product and the unit it is sold in."""
    if domain == "books":
        first, second = TITLES[language]
        return f"{rng.choice(first)} {rng.choice(second)}", "copy"
    heads, attributes = PRODUCTS[domain][language]
    kind = rng.choices(list(heads), [len(words) for words in heads.values()])[0]
    product = rng.choice(heads[kind])
    if rng.random() < 0.75 and (kind != "b" or domain == "food"):
        product = f"{product} {rng.choice(attributes)}"
    unit = {"c": rng.choice(("piece", "box", "pack")), "k": "kg", "b": "bottle"}[kind]
    return product, unit


def draw_quantity(rng: random.Random) -> int:
    return rng.choice((rng.randint(1, 12), rng.randint(2, 12), rng.randint(13, 60), 10 * rng.randint(2, 30)))


def say_quantity(rng: random.Random, customer: Customer, quantity: int) -> str:
    if 2 <= quantity <= 12 and rng.random() < customer.words_for_numbers:
        return NUMBERS[customer.language][quantity - 2]
    return str(quantity)


def say_item(rng: random.Random, customer: Customer, quantity: int, unit: str, product: str) -> str:
    one, many = rng.choice(UNITS[customer.language][unit])
    form = one if quantity == 1 else many
    said = str(quantity) if form.startswith("x ") else say_quantity(rng, customer, quantity)
    elided = without_accents(product[0].lower()) in "aeiouh"
    return f"{said} {form.format(p=product, de='d’' if elided else 'de ')}".replace("’", "'")


def mistype(rng: random.Random, text: str, share: float, keep: tuple[str, ...]) -> str:
    """Swap or drop letters in some words, never in a word that the target needs."""
    safe = {word for phrase in keep for word in phrase.split()}
    words = text.split(" ")
    for place, word in enumerate(words):
        bare = word.strip('.,:;!?¿¡"')
        if len(bare) < 5 or not bare.isalpha() or bare in safe or rng.random() >= share:
            continue
        cut = rng.randrange(1, len(word) - 2)
        swapped = word[:cut] + word[cut + 1] + word[cut] + word[cut + 2 :]
        words[place] = swapped if rng.random() < 0.6 else word[:cut] + word[cut + 1 :]
    return " ".join(words)


def pick(rng: random.Random, customer: Customer, kind: str) -> str:
    if kind in customer.favourite and rng.random() < 0.4:
        return customer.favourite[kind]
    return rng.choice(SENTENCES[customer.language][kind])


def write_email(rng: random.Random, customer: Customer, domain: str) -> tuple[str, dict[str, object]]:
    """One e-mail and its order."""
    product, sold_in = draw_product(rng, customer.language, domain)
    other, _ = draw_product(rng, customer.language, domain)
    quantity = draw_quantity(rng)
    if quantity == 1 and sold_in in ("piece", "copy"):
        quantity = 2
    city, city2 = rng.choice(customer.cities), rng.choice(CITIES[customer.language])
    priority = rng.choices(("normal", "urgent"), (60, 40))[0]

    wrong = rng.choice([n for n in (quantity * 10, quantity + 2, quantity + rng.randint(3, 15)) if n != quantity])
    quote = '"{}"' if sold_in == "copy" and rng.random() < 0.4 else "{}"
    slots = {
        "item": say_item(rng, customer, quantity, sold_in, quote.format(product)),
        "old": str(wrong),
        "city": city,
        "city2": city2,
        "other": other,
        "n": str(rng.randint(3, 9999)),
        "phone": f"{rng.randint(600, 699)} {rng.randint(100, 999)} {rng.randint(10, 99)}",
        "name": customer.name if rng.random() < 0.3 else customer.name.split()[0],
    }
    body = plan(rng, customer, priority)
    text = " ".join(sentence.format(**slots) for sentence in body)
    habit = customer.habit
    text, product, city = habit(text), habit(product), habit(city)
    text = mistype(rng, text, customer.typo_share, (product, city, habit(slots["item"]), *NUMBERS[customer.language]))
    unit = "piece" if sold_in == "copy" else sold_in
    order = {"quantity": quantity, "unit": unit, "product": product, "city": city, "priority": priority}
    return text, order


def plan(rng: random.Random, customer: Customer, priority: str) -> list[str]:
    """The sentences of one e-mail in their order."""
    middle = [[pick(rng, customer, "fix")]] if rng.random() < 0.12 else [[pick(rng, customer, "order")]]
    if "{old}" not in middle[0][0] and rng.random() < 0.4:
        middle = [[pick(rng, customer, "order_city")]]
    else:
        middle.append([pick(rng, customer, "deliver")])
    if priority == "urgent":
        middle.append([pick(rng, customer, "urgent")])
    elif rng.random() < 0.25:
        middle.append([pick(rng, customer, "no_hurry")])
    if rng.random() < customer.chatters:
        middle.append([pick(rng, customer, "noise")])
    if rng.random() < 0.55:
        rng.shuffle(middle)
    start = [pick(rng, customer, "hello")] if rng.random() < customer.greets else []
    end = [pick(rng, customer, "close")] if rng.random() < 0.6 else []
    return start + [sentence for part in middle for sentence in part] + end


def make_rows(n_rows: int, n_customers: int, seed: int) -> Iterator[dict[str, object]]:
    rng = random.Random(seed)
    used: set[str] = set()
    customers = [make_customer(rng, used, number) for number in range(n_customers)]
    order_of_writing = [customer for customer in customers for _ in range(2)]
    order_of_writing += rng.choices(customers, k=n_rows - len(order_of_writing))
    rng.shuffle(order_of_writing)
    sent: dict[str, tuple[str, dict[str, object], str]] = {}
    for number, customer in enumerate(order_of_writing, 1):
        domain = customer.domain if rng.random() < 0.85 else rng.choice(DOMAINS)
        text, order = write_email(rng, customer, domain)
        if customer.name in sent and number % 120 == 0:  # now and then somebody sends the same e-mail twice
            text, order, domain = sent[customer.name]
        sent[customer.name] = (text, order, domain)
        written = date(2025, 1, 7) + timedelta(days=number * 540 // n_rows)
        yield {
            "id": f"order-{number:04d}",
            "customer": customer.name,
            "domain": domain,
            "date": written.isoformat(),
            "email": text,
            "order": order,
        }


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rows", type=int, default=600)
    arguments.add_argument("--customers", type=int, default=150)
    arguments.add_argument("--seed", type=int, default=11)
    given = arguments.parse_args()
    for row in make_rows(given.rows, given.customers, given.seed):
        sys.stdout.write(json.dumps(row, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
