"""`testigo plan`."""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from testigo.cli.output import CampaignPath, JsonFlag, WorkspaceFlag, ending, named, print_json, short, show, show_table
from testigo.disk import read_lines
from testigo.errors import CampaignError, WorkspaceError

if TYPE_CHECKING:
    from testigo.campaign import Campaign, PlannedRun
    from testigo.campaign.workspace import Workspace
    from testigo.rental import Measured, RunWork

_DAYS = (3.0, 7.0, 30.0)


def plan(
    campaign: CampaignPath,
    days: Annotated[
        list[float] | None, typer.Option("--days", metavar="DAYS", help="A package of so many days; may be repeated.")
    ] = None,
    price: Annotated[float | None, typer.Option("--price", metavar="PRICE", help="What an hour costs.", min=0)] = None,
    margin: Annotated[
        float | None, typer.Option("--margin", metavar="X", help="All measured time is multiplied by it.", min=1)
    ] = None,
    workspace: WorkspaceFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Say what the campaign takes in time and money, what fits into 3, 7 and 30 days, and what falls out first.

    Example: testigo plan campaign.yaml --days 3 --days 7 --price 2.10
    """
    from testigo.campaign import load, planned_runs
    from testigo.campaign.workspace import Workspace
    from testigo.rental import MARGIN, plan_rental

    found = Workspace.find(campaign, workspace)
    file = campaign if campaign.is_file() else found.campaign_path
    if file is None or not file.is_file():
        raise WorkspaceError(
            expected="the campaign file",
            found="it is not there any more",
            where=str(file or found.root),
            action="give the campaign file, with --workspace for the folder",
        )
    loaded = load(file)
    sizes = _sizes(found, file)
    measured, sources = _measured(found, file, sizes)
    budget = loaded.budget
    runs = [_work(planned, sizes) for planned in planned_runs(loaded)]
    try:
        result = plan_rental(
            measured,
            runs,
            baseline_rows=sizes.validation,
            test_rows=sizes.test,
            checkpoint_every=_checkpoint_every(loaded, runs[0].updates),
            days=days or (budget.days if budget else _DAYS),
            price_per_hour=price if price is not None else budget.price_per_hour if budget else None,
            currency=(budget.currency or "") if budget else "",
            margin=margin or MARGIN,
        )
    except ValueError as error:
        raise CampaignError(
            expected="days above 0", found=str(error), where="--days", action="give a number of days such as 3"
        ) from error
    if as_json:
        print_json({**result.to_json(), "measured": sources})
    else:
        show_table(("package", "time used", "cost", "what fits"), result.package_rows())
        show()
        show_table(("piece", "time", "how"), result.piece_rows())
    ending(
        checked=f"measured: {'; '.join(f'{name} from {where}' for name, where in sources.items())}",
        not_checked="whether another machine is as fast: run its own pilot there",
        next_command=f"testigo run {named(campaign, workspace)}",
    )


@dataclass(frozen=True)
class Sizes:
    """Rows of the splits, from the corpus that was built last."""

    train: int
    validation: int
    test: int


def _sizes(workspace: Workspace, file: Path) -> Sizes:
    manifests = sorted((workspace.root / "corpus").glob("*/manifest.json"), key=lambda path: path.stat().st_mtime)
    if not manifests:
        raise _not_yet("the rows of the corpus", workspace, f"testigo baseline {short(file)}")
    splits = json.loads(manifests[-1].read_text(encoding="utf-8"))["splits"]
    return Sizes(*(int(splits.get(name, {}).get("rows", 0)) for name in ("train", "validation", "test")))


def _work(planned: PlannedRun, sizes: Sizes) -> RunWork:
    from testigo.rental import RunWork

    training, processes = planned.campaign.training, planned.campaign.machine.processes
    per_update = training.microbatch * training.accumulation * processes
    updates = training.updates or max(1, -(-int(sizes.train * (training.epochs or 1)) // per_update))
    validations = updates // training.validate_every if training.validate_every else 1
    every = _checkpoint_every(planned.campaign, updates)
    return RunWork(planned.variant, planned.seed, updates, max(validations, 1), max(updates // every, 1))


def _checkpoint_every(campaign: Campaign, updates: int) -> int:
    """The rule of `checkpoint: {every: auto}`; the training room, which says it too, would import torch."""
    every = campaign.training.checkpoint.every
    return every if isinstance(every, int) else 50 if updates < 500 else 200 if updates > 2000 else 100


def _measured(workspace: Workspace, file: Path, sizes: Sizes) -> tuple[Measured, dict[str, str]]:
    """Times from the pilot and the baseline, and from real runs where there are some; and where each came from."""
    from testigo.rental import Measured

    pilots = sorted((workspace.root / "pilot").glob("*/phases.json"), key=lambda path: path.stat().st_mtime)
    metas = sorted(workspace.root.glob("baseline/*/predictions/validation.meta.json"), key=lambda p: p.stat().st_mtime)
    if not pilots:
        raise _not_yet("the pilot's measurements", workspace, f"testigo pilot {short(file)}")
    if not metas:
        raise _not_yet("the baseline's evaluation", workspace, f"testigo baseline {short(file)}")
    phases = {row["phase"]: float(row["seconds"]) for row in _json(pilots[-1])["phases"]}
    updates, validations = _from_runs(workspace)
    sources = {"update": f"{len(updates)} updates of runs"} if updates else {"update": "the pilot's second update"}
    sources |= {"validation": f"{len(validations)} validations of runs"} if validations else {"validation": "the pilot"}
    row_seconds = float(_json(metas[-1])["seconds"]) / max(sizes.validation, 1)
    sources |= {"evaluation": "the baseline", "load and export": "the pilot"}
    update = statistics.fmean(updates) if updates else phases.get("update-2", phases.get("update", 0.0))
    if update == 0.0:
        raise _not_yet("the pilot's second update", workspace, f"testigo pilot {short(file)}")
    measured = Measured(
        seconds_per_update=update,
        seconds_per_validation=statistics.fmean(validations) if validations else phases.get("validation", 0.0),
        seconds_per_evaluated_row=row_seconds,
        load_seconds=phases.get("load", 0.0),
        export_seconds=phases.get("export", 0.0),
        pilot_seconds=sum(phases.values()),
    )
    return measured, sources


def _from_runs(workspace: Workspace) -> tuple[list[float], list[float]]:
    """Seconds of each update and of each validation of real runs."""
    updates: list[float] = []
    validations: list[float] = []
    for path in sorted(workspace.root.glob("runs/*/steps.jsonl")):
        for line in read_lines(path):
            (validations if "validation_loss" in line else updates).append(float(line["seconds"]))
    return updates, validations


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _not_yet(what: str, workspace: Workspace, command: str) -> WorkspaceError:
    return WorkspaceError(expected=what, found="none yet", where=str(workspace.root), action=command)
