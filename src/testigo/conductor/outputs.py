"""The watch over a run's outputs: how they are written, what they copy, and what was lost beside the task."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from testigo.conductor.grounds import Grounds
from testigo.corpus import Row
from testigo.disk import read_lines, write_json
from testigo.evaluation.beside import read_beside
from testigo.rules import Finding, judge
from testigo.tasks import is_answered_by_head
from testigo.watch import Copies, Outputs, Recall, Retention, all_rules, find_copies

FILE = "watched.json"


def watch_outputs(grounds: Grounds, made: Path, baseline: Path) -> tuple[Finding, ...]:
    """Findings about the predictions file `made`, judged once and kept beside it while the limits stay the same."""
    limits = grounds.campaign.rules.limits
    kept = made.with_name(f"{made.stem}.{FILE}")
    if kept.is_file():
        document = json.loads(kept.read_text(encoding="utf-8"))
        if document["limits"] == json.loads(json.dumps(limits)):
            return tuple(Finding(**{**one, "rows": tuple(one["rows"])}) for one in document["findings"])
    lines = read_lines(made)
    evidence: list[object] = [Outputs.from_lines(lines)]
    if made.stem == "validation" and not is_answered_by_head(grounds.campaign):
        evidence += [*_beside(made.parent, baseline.parent), _copies(grounds, lines)]
    findings = judge(all_rules(), evidence, limits=limits).findings
    write_json(kept, {"limits": limits, "findings": [asdict(finding) for finding in findings]})
    return findings


def _beside(now: Path, before: Path) -> Iterator[object]:
    """Losses of general text and of rows without their inputs, where both evaluations have them."""
    tuned, base = read_beside(now), read_beside(before)
    if tuned and base:
        yield Retention(base["general"], tuned["general"])
        yield Recall(
            train_before={row: base["train"][row] for row in tuned["train"] if row in base["train"]},
            train_now={row: loss for row, loss in tuned["train"].items() if row in base["train"]},
            other_before=base["validation"],
            other_now={row: loss for row, loss in tuned["validation"].items() if row in base["validation"]},
        )


def _copies(grounds: Grounds, lines: list[dict[str, Any]]) -> Copies:
    outputs = {line["row"]: line["output"] for line in lines}
    own = {row.id: _text(grounds, row) for row in grounds.corpus.rows("validation")}
    return find_copies(outputs, own, ((row.id, _text(grounds, row)) for row in grounds.corpus.rows("train")))


def _text(grounds: Grounds, row: Row) -> str:
    """All that a row says: its target as it is learned, and its fields."""
    fields = json.dumps(row.fields, ensure_ascii=False, default=str)
    return f"{grounds.task.target(row.fields)}\n{fields}"
