"""Make the example rows again: `python make_tickets.py > tickets.jsonl`. The same seed gives the same bytes.

Nine queues of a help desk, the largest with ten times the rows of the smallest. Each customer knows only a part of the
ways to say a thing, and has habits: greeting, length, typing mistakes, small letters. What makes it more than looking
for words: asides that name what another queue is for, tickets of two words, and second problems beside the first; the
queue is that of the first.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from phrases import ASIDES, BYES, DETAILS, FILLERS, HELLOS, PROBLEMS, SHORT, SLOTS, WORDS

SHARES = {
    "delivery": 30, "billing": 21, "returns": 16, "login": 11, "bug": 8, "feature": 5, "cancellation": 4, "privacy": 3,
    "security": 3,
}  # fmt: skip
CHANNELS = ("mail", "chat", "form")


@dataclass(frozen=True)
class Customer:
    """One customer and the habits that make the tickets recognisable."""

    name: str
    channel: str
    knows: dict[str, tuple[str, ...]]
    greets: float
    adds: float
    terse: float
    typo_share: float
    small_letters: bool


def make_customer(rng: random.Random, number: int) -> Customer:
    channel = rng.choices(CHANNELS, (5, 3, 2))[0]
    return Customer(
        name=f"c{number:03d}",
        channel=channel,
        knows={queue: tuple(rng.sample(ways, max(3, len(ways) * 2 // 3))) for queue, ways in PROBLEMS.items()},
        greets={"mail": 0.8, "chat": 0.2, "form": 0.4}[channel],
        adds={"mail": 0.6, "chat": 0.3, "form": 0.5}[channel],
        terse={"mail": 0.02, "chat": 0.15, "form": 0.08}[channel],
        typo_share=rng.choice((0.0, 0.0, 0.01, 0.03)),
        small_letters=rng.random() < 0.2,
    )


def filled(rng: random.Random, text: str) -> str:
    """A phrase with its slots drawn; a drawn value may hold a slot itself."""
    while slot := re.search(r"\{(\w+)\}", text):
        kind = slot.group(1)
        amount = rng.randrange(900, 25_000) / 100
        drawn = {"order": f"#{rng.randrange(10_000, 99_999)}", "amount": f"{amount:.2f} euros",
                 "less": f"{amount * 0.7:.2f}"}.get(kind) or rng.choice(SLOTS[kind])  # fmt: skip
        text = f"{text[: slot.start()]}{drawn}{text[slot.end() :]}"
    return text


def reworded(rng: random.Random, text: str) -> str:
    """Some words become others that mean about the same, and a filler may come in: nobody writes a phrase twice."""
    words = [rng.choice(WORDS[word]) if word in WORDS and rng.random() < 0.45 else word for word in text.split(" ")]
    if rng.random() < 0.4:
        filler = rng.choice(FILLERS)
        ahead = text[-1] in ".?!" or rng.random() < 0.5
        words = [f"{filler},", *words] if ahead else [*words, filler]
    return " ".join(words)


def sentence(text: str) -> str:
    text = text[0].upper() + text[1:]
    return text if text[-1] in '.?!"' else text + "."


def write_ticket(rng: random.Random, customer: Customer, queue: str) -> str:
    if rng.random() < customer.terse:
        return filled(rng, rng.choice(SHORT[queue]))
    parts = [sentence(reworded(rng, filled(rng, rng.choice(customer.knows[queue]))))]
    others = [other for other in PROBLEMS if other != queue]
    if rng.random() < customer.adds:
        parts.append(reworded(rng, filled(rng, rng.choice(DETAILS))))
    if rng.random() < 0.25:
        parts.insert(rng.randrange(2), filled(rng, rng.choice(ASIDES[rng.choice(others)])))
    if rng.random() < 0.12:
        second = reworded(rng, filled(rng, rng.choice(customer.knows[rng.choice(others)])))
        parts.append(f"And one more thing, less urgent: {second}.")
    if rng.random() < customer.greets:
        parts = [rng.choice(HELLOS), *parts, filled(rng, rng.choice(BYES))]
    text = " ".join(parts)
    return mistyped(rng, text.lower() if customer.small_letters else text, customer.typo_share)


def mistyped(rng: random.Random, text: str, share: float) -> str:
    """Some neighbouring letters change places, some are lost."""
    letters = list(text)
    for place in range(1, len(letters) - 1):
        if letters[place].isalpha() and letters[place + 1].isalpha() and rng.random() < share:
            if rng.random() < 0.5:
                letters[place], letters[place + 1] = letters[place + 1], letters[place]
            else:
                letters[place] = ""
    return "".join(letters)


def tickets(seed: int, n_rows: int) -> Iterator[dict[str, str]]:
    rng = random.Random(seed)
    customers = [make_customer(rng, number) for number in range(n_rows // 4)]
    for number in range(n_rows):
        customer = rng.choice(customers)
        queue = rng.choices(list(SHARES), list(SHARES.values()))[0]
        yield {
            "id": f"t{number:04d}",
            "customer": customer.name,
            "channel": customer.channel,
            "text": write_ticket(rng, customer, queue),
            "queue": queue,
        }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--rows", type=int, default=1000)
    asked = parser.parse_args()
    for row in tickets(asked.seed, asked.rows):
        sys.stdout.write(json.dumps(row, ensure_ascii=False) + "\n")
