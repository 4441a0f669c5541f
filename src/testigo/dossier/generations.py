"""What the compared run wrote to a few fixed prompts at each validation, from the untouched base to its last update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from testigo.dossier.comparison_facts import shortened
from testigo.dossier.files import read_lines, real, whole
from testigo.dossier.record import Generated, Generation, SamplePoint

FILE = "samples.jsonl"
_PROMPTS = 4
_MOMENTS = 6
_LETTERS = 320


def generations_from(folder: Path, metric: str) -> tuple[Generation, ...]:
    """A few prompts with their outputs at the beginning, at the end, and at moments between them."""
    by_row: dict[str, dict[int, Mapping[str, Any]]] = {}
    for line in read_lines(folder / FILE):
        update = whole(line.get("update"))
        if update is not None:
            by_row.setdefault(str(line.get("row", "")), {})[update] = line  # a resumed run may have written it twice
    return tuple(_generation(row, lines, metric) for row, lines in list(by_row.items())[:_PROMPTS])


def points_from(folder: Path, metric: str) -> tuple[SamplePoint, ...]:
    """The mean score of the fixed prompts at each validation; empty where single outputs have no such score."""
    lines: dict[tuple[int, str], float] = {}
    for line in read_lines(folder / FILE):
        scores, update = line.get("scores"), whole(line.get("update"))
        score = real(scores.get(metric)) if isinstance(scores, Mapping) else None
        if update is not None and score is not None:
            lines[update, str(line.get("row"))] = score
    by_update: dict[int, list[float]] = {}
    for (update, _row), score in sorted(lines.items()):
        by_update.setdefault(update, []).append(score)
    return tuple(SamplePoint(update, sum(scores) / len(scores)) for update, scores in by_update.items())


def _generation(row: str, lines: Mapping[int, Mapping[str, Any]], metric: str) -> Generation:
    target = next((str(line["target"]) for line in lines.values() if line.get("target")), "")
    outputs = []
    for update in _spread(sorted(lines)):
        scores = lines[update].get("scores")
        score = real(scores.get(metric)) if isinstance(scores, Mapping) else None
        outputs.append(Generated(update, shortened(str(lines[update].get("output", "")), _LETTERS), score))
    return Generation(row, shortened(target, _LETTERS), tuple(outputs))


def _spread(updates: Sequence[int]) -> list[int]:
    """The first, the last, and others at equal steps between them."""
    if len(updates) <= _MOMENTS:
        return list(updates)
    last = len(updates) - 1
    return [updates[round(i * last / (_MOMENTS - 1))] for i in range(_MOMENTS)]
