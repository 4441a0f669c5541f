"""The largest number for which something still fits, with few tries, since each one is a run of the whole model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

MAX_TRIES = 6


@dataclass(frozen=True)
class Largest:
    """The largest number that was seen to fit (0: none does), and whether the next one was seen not to."""

    number: int
    is_exact: bool


def largest_fitting(
    needed: Callable[[int], int], limit: int, *, known: dict[int, int], most: int, max_tries: int = MAX_TRIES
) -> Largest:
    """Narrow down between what fits and what does not.

    Memory grows almost in a straight line with the microbatch, so the next try is where the line through the two
    nearest points meets the limit; every second try halves the gap, in case the line is bent.

    Parameters
    ----------
    needed
        Number -> bytes; grows with the number.
    known
        At least one number whose bytes are known.
    most
        Numbers above it are of no interest.
    """
    seen = dict(known)
    for attempt in range(max_tries):
        low, high = _low(seen, limit), _high(seen, limit, most)
        if high - low <= 1:
            break
        guess = _on_the_line(seen, limit, low, high) if attempt % 2 == 0 else (low + high) // 2
        if high > most and attempt % 2:
            guess = low * 2
        guess = min(max(guess, low + 1), high - 1)
        seen[guess] = needed(guess)
    low, high = _low(seen, limit), _high(seen, limit, most)
    return Largest(low, high - low <= 1)


def _low(seen: dict[int, int], limit: int) -> int:
    return max((number for number, n_bytes in seen.items() if n_bytes <= limit), default=0)


def _high(seen: dict[int, int], limit: int, most: int) -> int:
    return min((number for number, n_bytes in seen.items() if n_bytes > limit), default=most + 1)


def _on_the_line(seen: dict[int, int], limit: int, low: int, high: int) -> int:
    near = sorted(seen, key=lambda number: abs(seen[number] - limit))[:2]
    if len(near) < 2 or seen[near[0]] == seen[near[1]]:
        return low * 2 if low and high > 2 * low else (low + high) // 2
    a, b = sorted(near)
    slope = (seen[b] - seen[a]) / (b - a)
    return int(a + (limit - seen[a]) / slope)
