"""What a run wrote to its fixed prompts, validation by validation."""

from __future__ import annotations

from dataclasses import dataclass

from testigo.dossier.comparison_facts import shortened
from testigo.dossier.files import whole, words
from testigo.page.site import Site

_MOST_PROMPTS = 12
_MOST_MOMENTS = 12
_SHORT = 800


@dataclass(frozen=True)
class Generations:
    """One prompt: what the model answered at each validation, update 0 is the untouched base."""

    row: str
    prompt: str
    target: str
    outputs: tuple[tuple[int, str, str], ...]
    """Update, output, and why it ended."""


def generations(site: Site, run: str) -> tuple[Generations, ...]:
    """By prompt, the oldest first; of many validations the first, the last, and some between."""
    lines = site.small_lines(*site.folder_of(run), "samples.jsonl")
    by_row: dict[str, dict[int, tuple[str, str]]] = {}
    targets: dict[str, str] = {}
    for line in lines:
        update, row = whole(line.get("update")), str(line.get("row"))
        if update is None:
            continue
        targets.setdefault(row, words(line.get("target")))
        told = shortened(words(line.get("output")), _SHORT), words(line.get("stop"))
        by_row.setdefault(row, {})[update] = told
    if not by_row:
        return ()
    known, campaign = site.rows("validation"), site.campaign
    column = (campaign.task.input or "") if campaign else ""
    made = []
    for row, outputs in list(by_row.items())[:_MOST_PROMPTS]:
        prompt = words(known[row].fields.get(column)) if row in known else ""
        chosen = [(update, *outputs[update]) for update in _some(sorted(outputs))]
        made.append(Generations(row, shortened(prompt, _SHORT), shortened(targets[row], _SHORT), tuple(chosen)))
    return tuple(made)


def _some(updates: list[int]) -> list[int]:
    n = len(updates)
    if n <= _MOST_MOMENTS:
        return updates
    return [updates[round(place * (n - 1) / (_MOST_MOMENTS - 1))] for place in range(_MOST_MOMENTS)]
