"""``python -m testigo.page.screen WORKSPACE`` is what `testigo status --watch` starts: the overview on a terminal."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from testigo import signs
from testigo.campaign import Workspace
from testigo.errors import TestigoError
from testigo.ledger import kinds
from testigo.page.site import Site
from testigo.page.standing import Overview, RunRow, overview

LOOK_SECONDS = 1.0
LOG_EVERY_SECONDS = 60.0
_MOST_RUNS, _MOST_FINDINGS, _MOST_CURVES = 6, 4, 3
_CURVE_WIDTH = 38
_WIDTH = 80
_BLOCKS = "▁▂▃▄▅▆▇█"
_MARKS = {"done": "✓", "now": "▸", "failed": "✗", "part": "▸", "waiting": "·"}
_STYLES = {"stop": "bold red", "warn": "yellow", "note": "dim", "failed": "bold red", "now": "bold", "part": "bold"}


def curve(values: Sequence[float | None], width: int = _CURVE_WIDTH) -> str:
    """Values as one line of blocks between the lowest and the highest: of each stretch its highest, gaps as blanks."""
    known = [value for value in values if value is not None]
    if not known:
        return ""
    n = len(values)
    width = min(width, n)
    stretches = [values[k * n // width : (k + 1) * n // width] for k in range(width)]
    tops = [max((value for value in stretch if value is not None), default=None) for stretch in stretches]
    low, span = min(known), max(known) - min(known)
    steps = len(_BLOCKS) - 1
    return "".join(" " if top is None else _BLOCKS[round((top - low) / span * steps) if span else 0] for top in tops)


def frame(site: Site) -> tuple[RenderableType, bool]:
    """All that is shown now, at most 24 lines of 80 columns, and whether the campaign has ended."""
    seen = overview(site)
    ended = has_ended(site, seen)
    parts = [_head(site, seen), _stages(seen), Text(), _runs(seen), *_curves(site, seen), *_findings(seen)]
    return Group(*parts, _foot(seen, ended=ended)), ended


def has_ended(site: Site, seen: Overview) -> bool:
    """Whether nothing more will come: the dossier was written after the last run, or a gate stopped it."""
    last = {event.kind: event.number for event in site.events}
    return seen.state == "gate-failed" or (
        seen.state == "completed" and last.get(kinds.DOSSIER_WRITTEN, 0) > last.get(kinds.RUN_ENDED, 0)
    )


def line_of(site: Site, seen: Overview) -> str:
    """The state in one line, for a log."""
    now = (
        seen.now
        or f"{sum(row.state not in ('planned', 'running') for row in seen.runs)} of {len(seen.runs)} runs ended"
    )
    left = f"; {_humane(seen.remaining.seconds)} left" if seen.remaining.seconds else ""
    return f"{site.name}: {seen.state}; {now.rstrip('.')}{left}"


def _head(site: Site, seen: Overview) -> RenderableType:
    said = Text(_plain(seen.now or seen.conclusion or seen.question))
    return Group(_line(f"{site.name} · {seen.state}", "bold"), said)


def _stages(seen: Overview) -> Text:
    """The steps, as many a line as go into it whole."""
    text, taken = Text(), 0
    for stage in seen.stages:
        name = f"{_MARKS.get(stage.state, '·')} {_plain(stage.name)}  "
        if taken + len(name) > _WIDTH:
            text.append("\n")
            taken = 0
        text.append(name, style=_STYLES.get(stage.state, "dim"))
        taken += len(name)
    return text


def _runs(seen: Overview) -> RenderableType:
    order = sorted(seen.runs, key=lambda row: row.state != "running")
    table = Table(box=None, pad_edge=False, header_style="dim", expand=False)
    for name in ("run", "state", "updates", "loss", "validation", "score", "left"):
        table.add_column(
            name, no_wrap=True, overflow="ellipsis", justify="left" if name in ("run", "state") else "right"
        )
    for row in order[:_MOST_RUNS]:
        table.add_row(*(Text(_plain(cell)) for cell in _cells(row)))
    more = len(order) - _MOST_RUNS
    return Group(table, _line(f"and {more} more", "dim")) if more > 0 else table


def _cells(row: RunRow) -> Iterator[str]:
    yield f"{row.variant} seed {row.seed}"[:22]
    yield row.state
    yield f"{row.updates:,}" + (f"/{row.n_updates:,}" if row.n_updates else "")
    yield _number(row.loss)
    yield _number(row.best_validation)
    yield "" if row.score is None else f"{100 * row.score:.1f} %"
    yield _humane(row.left_seconds) if row.left_seconds else ""


def _curves(site: Site, seen: Overview) -> Iterator[Text]:
    ids = {run.id: run for run in site.runs}
    live = [row for row in seen.runs if row.state == "running"] or [row for row in seen.runs if row.updates][-1:]
    for row in live[:_MOST_CURVES]:
        if row.id not in ids:
            continue
        steps = site.steps(row.id)
        shown = (("loss", steps.columns["loss"]), ("validation", [one.loss for one in steps.validations]))
        for name, values in shown:
            known = [value for value in values if value is not None]
            if known:
                label = f"{row.variant[:10]} {row.seed} {name}"
                yield _line(f"{label:<22.22}{curve(values)}  {_number(known[0])} → {_number(known[-1])}")


def _findings(seen: Overview) -> Iterator[Text]:
    new = [one for one in seen.findings if not one.waived]
    names = {row.id: f"{row.variant} {row.seed}" for row in seen.runs}
    for one in new[:_MOST_FINDINGS]:
        at = f" ({names.get(one.run, one.run)}, update {one.update})" if one.update is not None else " (pilot)"
        found = one.finding
        yield _line(f"{found.severity} {found.code} {found.name}{at}: {found.observed}", _STYLES[found.severity])
    if len(new) > _MOST_FINDINGS:
        yield _line(f"and {len(new) - _MOST_FINDINGS} more findings", "dim")


def _foot(seen: Overview, *, ended: bool) -> Text:
    cost = f", {seen.cost:.2f} {seen.currency}" if seen.cost is not None else ""
    if ended:
        return _line(f"ended; {_humane(seen.seconds)} of runs{cost}", "dim")
    left = "?" if seen.remaining.seconds is None else _humane(seen.remaining.seconds)
    spent = f"so far {_humane(seen.seconds)} of runs{cost}"
    return _line(f"left: at most {left}; {spent}. Ctrl-C ends this view alone.", "dim")


def _line(text: str, style: str = "") -> Text:
    return Text(_plain(text), style=style, no_wrap=True, overflow="ellipsis")


def _plain(text: str) -> str:
    """Nothing in a text may move the cursor or change a colour."""
    return "".join(sign if sign.isprintable() else " " for sign in text)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _humane(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def watch(site: Site, screen: Console) -> None:
    """Draw until the campaign has ended; in a log, a line a minute."""
    if not screen.is_terminal:
        while True:
            seen = overview(site)
            screen.print(_plain(line_of(site, seen)), soft_wrap=True, markup=False, highlight=False)
            if has_ended(site, seen):
                return
            time.sleep(LOG_EVERY_SECONDS)
    with Live(console=screen, auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            shown, ended = frame(site)
            live.update(shown, refresh=True)
            if ended:
                return
            time.sleep(LOOK_SECONDS)


def main(arguments: Sequence[str]) -> int:
    """Show a workspace until its campaign has ended or somebody asks to end; a user's error is told in four parts."""
    parser = argparse.ArgumentParser(prog="python -m testigo.page.screen")
    parser.add_argument("workspace", type=Path, metavar="WORKSPACE")
    try:
        watch(Site(Workspace.find(parser.parse_args(arguments).workspace)), Console(highlight=False))
    except KeyboardInterrupt:
        return 0
    except TestigoError as error:
        print(signs.shown(str(error)), file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
