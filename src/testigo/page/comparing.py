"""Any runs over each other, and what the campaign's comparison says: the forest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from testigo.dossier import report
from testigo.dossier.language import _
from testigo.dossier.picture import Picture
from testigo.dossier.run_facts import mean_scores
from testigo.ledger import Run, kinds
from testigo.page.curves import QUANTITIES, Drawn, Line, Way, drawn, in_page
from testigo.page.plan import speed_of, work_of
from testigo.page.site import Site
from testigo.page.standing import RunRow, row_of

MOST_RUNS = 40
_FIRST_RUNS = 6
FIRST_QUANTITIES = ("loss", "validation")


@dataclass(frozen=True)
class ComparisonPage:
    """Curves of the chosen runs, their rows in the table, and the forest of the campaign's comparison."""

    chosen: tuple[str, ...]
    rows: tuple[RunRow, ...]
    what: tuple[str, ...]
    way: Way
    pictures: tuple[Drawn, ...]
    forest: Picture | None
    conclusion: str
    metric: str
    n_runs: int


def comparison_page(
    site: Site, runs: Sequence[str], what: Sequence[str], way: Way, *, at: str, with_pictures: bool
) -> ComparisonPage:
    """The chosen runs; without a choice the last that began."""
    known = {run.id: run for run in site.runs}
    chosen = [id for id in dict.fromkeys(runs) if id in known][:MOST_RUNS]
    if not chosen:
        chosen = [id for id, run in known.items() if run.attempts][-_FIRST_RUNS:]
    asked = tuple(name for name in QUANTITIES if name in what) or FIRST_QUANTITIES
    lines = lines_of(site, [known[id] for id in chosen])
    campaign = site.campaign
    metric, speed = campaign.hypothesis.improve.metric if campaign else "", speed_of(site)
    works = {work.run.id: work for work in work_of(site) if work.run is not None}
    statistics, forest = _forest(site)
    made = [drawn(name, lines, way, at=at, with_picture=with_pictures) for name in asked]
    return ComparisonPage(
        chosen=tuple(chosen),
        rows=tuple(row_of(site, works[id], metric, speed) for id in chosen),
        what=asked,
        way=way,
        pictures=tuple(one for one in made if one is not None),
        forest=forest,
        conclusion=str(statistics.get("conclusion") or ""),
        metric=metric,
        n_runs=len(known),
    )


def lines_of(site: Site, runs: Sequence[Run]) -> list[Line]:
    """Each run with a colour of its variant and the dashes of its seed, as in the dossier."""
    variants = list(dict.fromkeys(run.variant for run in runs))
    names = [_("{variant}, seed {seed}", variant=run.variant, seed=run.seed) for run in runs]
    seen: dict[str, int] = {}
    lines = []
    for run, name in zip(runs, names, strict=True):
        twin = seen[run.variant] = seen.get(run.variant, -1) + 1
        unique = name if names.count(name) == 1 else run.id
        lines.append(Line(run.id, unique, site.steps(run.id), kind=variants.index(run.variant), twin=twin))
    return lines


def _forest(site: Site) -> tuple[dict[str, Any], Picture | None]:
    """The dossier's forest of the last comparison: on the test where it was opened, else on validation."""
    campaign = site.campaign
    for split in ("test", "validation"):
        statistics = site.comparison(split)
        if statistics and campaign:
            break
    else:
        return {}, None
    hypothesis, own = campaign.hypothesis, statistics.get("improvement")
    own = own if isinstance(own, dict) else {}
    baseline = site.current("baseline", kinds.BASELINE_EVALUATED)
    lines = site.lines("baseline", baseline, "predictions", f"{split}.jsonl") if baseline else []
    record: Any = SimpleNamespace(
        comparison=SimpleNamespace(statistics=statistics, split=split, recomputed=None),
        # What was judged, though the file may have been edited since.
        hypothesis=SimpleNamespace(
            metric=own.get("metric", hypothesis.improve.metric),
            by=own.get("by", hypothesis.improve.by),
            alpha=hypothesis.alpha,
        ),
        baseline=mean_scores(lines, {}) if lines else {},
        openings=(),
    )
    picture = report.forest_picture(record)
    return statistics, in_page(picture) if picture else None
