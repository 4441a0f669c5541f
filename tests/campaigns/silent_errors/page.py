"""The table of docs/silent-errors.md, made from the records."""

from __future__ import annotations

import re

from silent_errors import CASES, FILES, Case
from silent_errors.record import Loop

HEAD = """# Silent errors

<!-- made by `make docs` from tests/campaigns/silent_errors; do not edit -->

Each fault below was planted into a training that then runs without an exception. The table says what names it, and by
which codes (`testigo explain CODE`). Each has a healthy twin, made of the same parts, on which no rule stops
or warns. `C01` to `C56` are [cases](cases.md); the other sources are public reports of the same kind of fault, or say
in words how it comes about.

{counts}

| fault | source | own loop | Trainer | SFTTrainer |
|---|---|---|---|---|
"""
ORDER = [file.__name__ for file in FILES]
LOOPS: tuple[Loop, ...] = ("own", "Trainer", "SFTTrainer")


def page() -> str:
    """The whole page."""
    faults: dict[str, list[Case]] = {}
    for case in sorted(CASES, key=lambda case: ORDER.index(case.build.__module__)):
        faults.setdefault(case.fault, []).append(case)
    counts = [f"{sum(case.loop == loop for case in CASES)} in {_loop(loop)}" for loop in LOOPS]
    said = f"{len(CASES)} planted errors of {len(faults)} kinds: {', '.join(counts)}."
    rows = [_row(fault, cases) for fault, cases in faults.items()]
    return HEAD.format(counts=said) + "\n".join(rows) + "\n"


def _loop(loop: Loop) -> str:
    return "our own loop" if loop == "own" else loop


def _row(fault: str, cases: list[Case]) -> str:
    sources = dict.fromkeys(part for case in cases for part in case.source.split("; "))
    cells = [", ".join(_found(case) for case in cases if case.loop == loop) for loop in LOOPS]
    return f"| {fault} | {'; '.join(map(_linked, sources))} | {' | '.join(cells)} |"


def _found(case: Case) -> str:
    links = " ".join(f"[{code}](rules/{code}.md)" for code in case.codes)
    return f"{case.by} {links}"


def _linked(source: str) -> str:
    match = re.fullmatch(r"https://github\.com/([^/]+/[^/]+)/(?:issues|pull)/(\d+)", source)
    return f"[{match[1]}#{match[2]}]({source})" if match else source
