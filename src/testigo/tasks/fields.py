"""Comparing JSON values field by field."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

Leaf = tuple[tuple[str | int, ...], str, Any]


def leaves(value: Any) -> Iterator[Leaf]:
    """Every leaf as (path, type, value): text, number, truth value, null, and empty objects and lists.

    A path is made of keys and places in lists. `2` and `2.0` are one number, `true` is not `1`. Walks without
    recursion, so that depth is no matter.
    """
    waiting: list[tuple[tuple[str | int, ...], Any]] = [((), value)]
    while waiting:
        path, node = waiting.pop()
        if isinstance(node, dict) and node:
            waiting += [((*path, str(key)), child) for key, child in node.items()]
        elif isinstance(node, list) and node:
            waiting += [((*path, place), child) for place, child in enumerate(node)]
        else:
            yield path, *_typed(node)


def equal(one: Any, other: Any) -> bool:
    """Whether two JSON values are the same: order of keys is no matter, `2 == 2.0`, `true != 1`."""
    return Counter(leaves(one)) == Counter(leaves(other))


def field_f1(gold: Any, found: Any) -> float:
    """F1 over the leaf fields (path, value) of one pair of objects, micro: true fields are counted, not averaged.

    F1 = 2 · both / (leaves of gold + leaves of found). A leaf counts only when path and value agree. A row's score is
    this F1; the mean over rows weighs each row alike. Source: Chinchor 1992, MUC-4 evaluation metrics (slots as units).
    """
    expected, given = Counter(leaves(gold)), Counter(leaves(found))
    return 2 * (expected & given).total() / (expected.total() + given.total())


def _typed(node: Any) -> tuple[str, Any]:
    if isinstance(node, bool):
        return "truth", node
    if isinstance(node, (int, float)):
        return "number", node
    if isinstance(node, str):
        return "text", node
    return ("null", None) if node is None else (type(node).__name__, ())
