"""Rows before and after: fixed, broken, right twice and wrong twice, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from testigo.dossier.comparison_facts import shortened
from testigo.dossier.files import words
from testigo.dossier.record import Example
from testigo.ledger import kinds
from testigo.page.site import Site
from testigo.tasks import task_for

KINDS = ("broken", "fixed", "both_wrong", "both_right")
A_PAGE = 20
_SHORT = 3000


@dataclass(frozen=True)
class RowsPage:
    """One page of rows of one kind. `counts` has all kinds; `splits` those that were compared."""

    split: str
    splits: tuple[str, ...]
    kind: str
    counts: dict[str, int]
    start: int
    examples: tuple[Example, ...]
    conclusion: str
    run: str


def rows_page(site: Site, *, split: str = "", kind: str = "broken", start: int = 0) -> RowsPage | None:
    """Rows of the comparison on a split, the sealed test only once it was opened; None without a comparison."""
    documents = {split: site.comparison(split) for split in ("test", "validation")}
    splits = tuple(name for name, document in documents.items() if document)
    if not splits:
        return None
    split = split if split in splits else splits[0]
    kind = kind if kind in KINDS else KINDS[0]
    statistics = documents[split]
    listed = statistics.get("rows")
    listed = listed if isinstance(listed, Mapping) else {}
    ids = [str(row) for row in listed.get(kind) or ()]
    start = max(0, min(start, len(ids) - 1)) // A_PAGE * A_PAGE if ids else 0
    run = _tuned_run(site, statistics, split)
    return RowsPage(
        split=split,
        splits=splits,
        kind=kind,
        counts={name: len(listed.get(name) or ()) for name in KINDS},
        start=start,
        examples=tuple(_examples(site, split, kind, run, ids[start : start + A_PAGE])),
        conclusion=str(statistics.get("conclusion") or ""),
        run=run,
    )


def _examples(site: Site, split: str, kind: str, run: str, ids: Sequence[str]) -> list[Example]:
    baseline = site.current("baseline", kinds.BASELINE_EVALUATED)
    before = _by_row(site.lines("baseline", baseline, "predictions", f"{split}.jsonl")) if baseline else {}
    after = _by_row(site.lines(*site.folder_of(run), "predictions", f"{split}.jsonl")) if run else {}
    # The sealed rows are never read for the sake of a page: of the test, outputs alone are shown.
    known = site.rows("validation") if split == "validation" else {}
    campaign = site.campaign
    task = task_for(campaign) if campaign else None
    made = []
    for id in ids:
        row, old, new = known.get(id), before.get(id, {}), after.get(id, {})
        prompt = words(row.fields.get(campaign.task.input or "")) if row and campaign else ""
        made.append(
            Example(
                row=id,
                category=str(old.get("category") or new.get("category") or ""),
                kind=kind,
                prompt=shortened(prompt, _SHORT),
                target=shortened(task.target(row.fields), _SHORT) if row and task else "",
                before=shortened(str(old.get("output", "")), _SHORT),
                after=shortened(str(new.get("output", "")), _SHORT),
            )
        )
    return made


def _tuned_run(site: Site, statistics: Mapping[str, Any], split: str) -> str:
    """The run that was compared: the one that the statistics or the ledger name, if the ledger knows it."""
    told = [event.body for event in site.events if event.kind == kinds.COMPARED]
    named = [body.get("run") for body in told if body.get("split", "validation") == split]
    known = {run.id for run in site.runs}
    for name in (statistics.get("run"), *reversed(named)):
        if name in known:
            return str(name)
    control = [run for run in site.runs if run.variant == "control" and run.state in ("completed", "stopped-early")]
    return min(control, key=lambda run: run.seed).id if control else ""


def _by_row(lines: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {str(line.get("row")): line for line in lines}
