"""One run: what it is, its curves, its findings, its log; and one of its updates, row by row."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from testigo.corpus import Row
from testigo.dossier import units
from testigo.dossier.comparison_facts import shortened
from testigo.dossier.files import real, words
from testigo.dossier.history import notes
from testigo.dossier.language import _, later
from testigo.dossier.record import Note
from testigo.ledger import Event, Run, kinds
from testigo.page.curves import QUANTITIES, Drawn, Line, Way, drawn
from testigo.page.generations import Generations, generations
from testigo.page.reading import tail_of
from testigo.page.site import Site
from testigo.page.standing import Found, RunRow, findings_in_run, run_row
from testigo.tasks import Task, task_for

_LOG_BYTES = 12_000
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")
_FACTS = (
    ("loss", later("Training loss"), later("nats")),
    ("learning_rate", later("Learning rate"), ""),
    ("gradient_norm", later("Gradient norm"), later("before clipping")),
    ("clipped", later("The gradient was clipped"), ""),
    ("skipped", later("The update was skipped"), ""),
    ("supervised_tokens", later("Tokens in the loss"), ""),
    ("tokens", later("All tokens"), ""),
    ("examples", later("Rows"), ""),
    ("seconds", later("Time"), ""),
    ("epoch", later("Epochs so far"), ""),
)
"""Key of an update's line, title, unit."""


@dataclass(frozen=True)
class RunPage:
    """What the page of a run shows."""

    run: Run
    row: RunRow
    metric: str
    because: str
    settings: dict[str, str]
    pictures: tuple[Drawn, ...]
    way: Way
    findings: tuple[Found, ...]
    events: tuple[Event, ...]
    notes: tuple[Note, ...]
    log: str
    generations: tuple[Generations, ...]
    may_stop: bool
    stop_asked: str


@dataclass(frozen=True)
class UpdateRow:
    """A row of an update: its own loss in nats per token, and its texts where the corpus can be read."""

    id: str
    loss: float | None
    prompt: str
    target: str


@dataclass(frozen=True)
class UpdatePage:
    """One update with its rows, the worst first."""

    run: Run
    update: int
    facts: tuple[tuple[str, str], ...]
    """Title and value with its unit."""
    rows: tuple[UpdateRow, ...]
    findings: tuple[Found, ...]
    before: int | None
    after: int | None


def run_page(
    site: Site, id: str, *, way: Way | None = None, at: str = "", with_pictures: bool = True
) -> RunPage | None:
    """The page of a run; None when the ledger does not know it."""
    way = way or Way()
    run = site.run(id)
    if run is None:
        return None
    steps, found = site.steps(run.id), findings_in_run(site, run.id)
    campaign = site.campaign
    variant = next((one for one in campaign.variants if one.name == run.variant), None) if campaign else None
    return RunPage(
        run=run,
        row=run_row(site, run),
        metric=campaign.hypothesis.improve.metric if campaign else "",
        because=variant.because if variant else "",
        settings={name: words(value) for name, value in variant.set.items()} if variant else {},
        pictures=tuple(
            picture
            for name in QUANTITIES
            if (picture := drawn(name, [Line(run.id, "", steps)], way, found, at=at, with_picture=with_pictures))
        ),
        way=way,
        findings=tuple(found),
        events=tuple(event for event in site.events if event.run == run.id),
        notes=notes([event for event in site.events if event.run == run.id and event.kind == kinds.NOTE]),
        log=plain(tail_of(site.file(*site.folder_of(run.id), "log.txt"), _LOG_BYTES)),
        generations=generations(site, run.id),
        may_stop=run.state in ("running", "interrupted", "planned"),
        stop_asked=next(
            (str(event.body.get("by") or "-") for event in site.events if _asks_to_stop(event, run.id)), ""
        ),
    )


def _asks_to_stop(event: Event, run: str) -> bool:
    return event.kind == kinds.RUN_STOP_ASKED and event.run == run


def update_page(site: Site, id: str, update: int) -> UpdatePage | None:
    """One update of a run; None when there is no such run or update."""
    run = site.run(id)
    line = site.steps(run.id).line(update) if run else None
    if run is None or line is None:
        return None
    steps, known, campaign = site.steps(run.id), site.rows("train"), site.campaign
    task = task_for(campaign) if campaign else None
    losses = line.get("row_losses")
    losses = losses if isinstance(losses, Mapping) else dict.fromkeys(map(str, line.get("rows") or ()))
    column = campaign.task.input if campaign else None
    rows = [_update_row(str(name), real(loss), known.get(str(name)), column, task) for name, loss in losses.items()]
    rows.sort(key=lambda row: -(row.loss if row.loss is not None else float("inf")))
    at = steps.updates.index(update)
    return UpdatePage(
        run=run,
        update=update,
        facts=tuple(_facts(line)),
        rows=tuple(rows),
        findings=tuple(one for one in findings_in_run(site, run.id) if one.update == update),
        before=steps.updates[at - 1] if at else None,
        after=steps.updates[at + 1] if at + 1 < len(steps.updates) else None,
    )


def _facts(line: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The numbers of an update's line that were measured."""
    for key, title, unit in _FACTS:
        value = line.get(key)
        if isinstance(value, bool):
            yield _(title), _("yes") if value else _("no")
        elif key == "seconds" and value is not None:
            yield _(title), units.duration(value)
        elif isinstance(value, int):
            yield _(title), units.count(value)
        elif isinstance(value, float):
            has_unit = unit and math.isfinite(value)
            yield _(title), f"{units.number(value, 5)} {_(unit)}" if has_unit else units.number(value, 5)


def plain(text: str) -> str:
    """A log without the control codes of terminals; of a line that was drawn over, the last state."""
    lines = (line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return _CONTROL.sub("", "\n".join(lines)).strip("\n")


def _update_row(id: str, loss: float | None, row: Row | None, column: str | None, task: Task | None) -> UpdateRow:
    if row is None or task is None:
        return UpdateRow(id, loss, "", "")
    prompt = words(row.fields.get(column or ""))
    return UpdateRow(id, loss, shortened(prompt), shortened(task.target(row.fields)))
