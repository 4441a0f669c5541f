"""How time and memory of one update grow with rows, length, and the share that rows have in common.

    python benchmarks/growth.py [--json FILE]

Counted, not timed: tokens that go through the model, places that attention compares, and arithmetic, for the padded
layout, for packs that carry their own prefix, and for packs with the prefix of the update computed once. Time follows
the arithmetic on a processor that is busy with it; what it gives in seconds is in `training.py`.
"""

from __future__ import annotations

import random
import sys
from typing import Any

from peers import keep, split_file

from testigo.encoding import EncodedRow, n_laid, pack
from testigo.model.layout import Layout

#: SmolLM2 135M: weights that each token meets, its head, and what attention compares, per layer.
WEIGHTS, HEAD, LAYERS, WIDTH = 106_200_000, 28_300_000, 30, 576
CASES = {
    "8 rows of 200, 0 % shared": (8, 200, 0.0),
    "8 rows of 200, 30 % shared": (8, 200, 0.3),
    "8 rows of 200, 60 % shared": (8, 200, 0.6),
    "8 rows of 200, 90 % shared": (8, 200, 0.9),
    "32 rows of 200, 60 % shared": (32, 200, 0.6),
    "128 rows of 200, 60 % shared": (128, 200, 0.6),
    "8 rows of 800, 60 % shared": (8, 800, 0.6),
    "8 rows of 3,200, 60 % shared": (8, 3200, 0.6),
}


def rows_of(n: int, length: int, share: float) -> list[EncodedRow]:
    """Rows of about a length, of which a share begins alike; the last fifth is learned."""
    draw = random.Random(0)
    head = tuple(draw.randrange(1000) for _ in range(int(length * share)))
    made = []
    for k in range(n):
        own = draw.randint(int((length - len(head)) * 0.7), int((length - len(head)) * 1.3))
        ids = head + tuple(draw.randrange(1000, 2000) for _ in range(max(own, 10)))
        made.append(EncodedRow(f"r{k}", "", ids, len(ids) - max(len(ids) // 5, 2)))
    return made


def operations(n_tokens: int, n_compared: int, n_learned: int) -> float:
    """Of a forward and a backward pass under a frozen base: 2 + 2 a weight and token, attention thrice."""
    return 4 * (WEIGHTS * n_tokens + HEAD * n_learned) + 3 * 4 * LAYERS * WIDTH * n_compared


def measured() -> dict[str, Any]:
    found = {}
    for name, (n, length, share) in CASES.items():
        rows = rows_of(n, length, share)
        learned = sum(row.n_supervised for row in rows)
        longest = max(row.n_tokens for row in rows)
        budget = n_laid([max(rows, key=lambda row: row.n_tokens)])
        made = {"padded": (n * longest, n * longest * longest, n * longest, longest * n)}
        for kind, cached in (("packs", False), ("prefix once", True)):
            groups = Layout(1, budget, can_cache=cached).of_update(rows)
            laid = [pack(own, before=groups.before) for own in groups.rows]
            tokens = groups.before + sum(own.n_tokens for own in laid)
            compared = groups.before**2 + sum(own.n_tokens * (own.n_tokens + own.n_before) for own in laid)
            made[kind] = (tokens, compared, learned, max(own.n_tokens + own.n_before for own in laid))
        found[name] = {
            kind: {"tokens": own[0], "operations": operations(*own[:3]), "kept": own[3]} for kind, own in made.items()
        }
    return found


def told(found: dict[str, Any]) -> list[str]:
    """A table."""
    lines = [
        "| update | tokens: padded, packs, prefix once | arithmetic against padded | tokens kept for backward |",
        "|---|---|---|---|",
    ]
    for name, own in found.items():
        if name == "load":
            continue
        tokens = ", ".join(f"{own[kind]['tokens']:,}" for kind in own)
        whole = own["padded"]["operations"]
        shares = ", ".join(f"{own[kind]['operations'] / whole:.2f}" for kind in own if kind != "padded")
        kept = f"{own['padded']['kept']:,} (padded), {own['prefix once']['kept']:,}"
        lines.append(f"| {name} | {tokens} | {shares} | {kept} |")
    return lines


if __name__ == "__main__":
    words, file = split_file(sys.argv[1:])
    table = measured()
    print("\n".join(told(table)))
    keep(table, file)
