"""What every rule needs: a value that was really measured, and how exact a precision can be."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TypeVar

from testigo.counting import counted
from testigo.rules import CannotCheck, Finding, Passed, found, passed

T = TypeVar("T")
NOT_MEASURED = "not measured: "
"""How the reason of a rule begins whose evidence was not collected."""

#: Relative spacing of numbers of each precision (machine epsilon): 2^-23, 2^-10, 2^-7. Source: IEEE 754-2019 for
#: fp32 and fp16; "BFLOAT16 - hardware numerics definition", Intel 2018, for bf16.
EPSILON = {"fp64": 2.0**-52, "fp32": 2.0**-23, "fp16": 2.0**-10, "bf16": 2.0**-7}


def need(value: T | None, what: str) -> T:
    """The value, or `CannotCheck` with the words of what was not measured."""
    if value is None:
        raise CannotCheck(f"{NOT_MEASURED}{what}")
    return value


def tolerance(fp32_limit: float, precision: str | None) -> float:
    """A limit that was stated for fp32, widened for coarser numbers.

    Rounding errors are proportional to the machine epsilon, so a limit of 1e-4 in fp32 (about 840 epsilons) would be
    6.5 in bf16. Errors of many roundings partly cancel and grow with the square root of their number (Higham,
    "Accuracy and Stability of Numerical Algorithms", 2002, section 2.8), so the limit grows with the square root of
    the epsilons' ratio: 1e-4 becomes 0.9 % in fp16 and 2.6 % in bf16.
    """
    epsilon = EPSILON.get(precision or "fp32", EPSILON["bf16"])
    return fp32_limit * max(1.0, math.sqrt(epsilon / EPSILON["fp32"]))


def names(values: Iterable[str], most: int = 5) -> str:
    """The first few names for a sentence, and how many more there are."""
    every = list(values)
    shown = ", ".join(every[:most])
    return shown if len(every) <= most else f"{shown} and {len(every) - most} more"


def pairs(values: Sequence[tuple[str, str]], most: int = 5) -> str:
    """The first few pairs for a sentence, written a=b."""
    return names((f"{left} = {right}" for left, right in values), most)


def no_row(rows: Sequence[str] | None, what: str, fault: str, good: str, total: int | None = None) -> Finding | Passed:
    """The commonest rule: a list of row ids that must be empty."""
    rows = need(rows, what)
    if not rows:
        return passed(good)
    seen = f"{len(rows)} of {total} rows" if total else counted(len(rows), "row")
    return found(f"{seen} {fault}: {names(rows)}", rows=rows)


def at_most(value: float | None, limit: float, what: str) -> Finding | Passed:
    """A measured error that must not pass its limit; NaN passes no limit."""
    value = need(value, what)
    observed = f"{what} is {value:.3g} (at most {limit:.3g})"
    return passed(observed) if value <= limit else found(observed)
