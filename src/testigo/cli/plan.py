"""`testigo plan`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from testigo.cli.opening import find_workspace
from testigo.cli.output import CampaignPath, JsonFlag, WorkspaceFlag, ending, named, print_json, short, show, show_table
from testigo.errors import CampaignError, WorkspaceError

if TYPE_CHECKING:
    from testigo.campaign import Campaign
    from testigo.campaign.workspace import Workspace
    from testigo.rental import Held, RentalPlan
    from testigo.rental.gpus import Offer, Piloted

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
    gpus: Annotated[
        str | None,
        typer.Option("--gpus", metavar="TABLE", help="Compare the GPUs of a table: `builtin`, or a file of yours."),
    ] = None,
    write_gpus: Annotated[
        Path | None,
        typer.Option("--write-gpus", metavar="FILE", help="Write the built-in table of GPUs, to be edited."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write the plan as a page with its picture.")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option("--picture", metavar="FILE", help="Write the picture of the pieces in time (SVG).")
    ] = None,
    calendar: Annotated[
        Path | None, typer.Option("--calendar", metavar="FILE", help="Write the pieces as a calendar file (.ics).")
    ] = None,
    start: Annotated[
        datetime | None, typer.Option("--start", help="When the calendar begins; now when not given.")
    ] = None,
    workspace: WorkspaceFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Say what the campaign takes in time and money, what fits into 3, 7 and 30 days, and what falls out first.

    Where runs have been done, what was planned before them stands beside what they took.

    Example: testigo plan campaign.yaml --days 3 --days 7 --price 2.10 --html plan.html --calendar plan.ics
    """
    from testigo.campaign import load
    from testigo.rental import NotMeasured
    from testigo.rental.gpus import offers, read_table, table_text

    if write_gpus is not None:
        _write(write_gpus, table_text())
    found = find_workspace(campaign, workspace)
    file = campaign if campaign.is_file() else found.campaign_path
    if file is None or not file.is_file():
        raise WorkspaceError(
            expected="the campaign file",
            found="it is not there any more",
            where=str(file or found.root),
            action="give the campaign file, with --workspace for the folder",
        )
    loaded = load(file)
    table = read_table(None if gpus == "builtin" else Path(gpus)) if gpus else ()
    try:
        wanted = _wanted(loaded, days, price, margin)
        result, sources = _planned(found.root, loaded, wanted)
        compared = (
            offers(_pilots(found.root, loaded, wanted), table, price_per_hour=wanted["price_per_hour"]) if table else []
        )
        held = _held(found, loaded)
    except NotMeasured as missing:
        raise WorkspaceError(
            expected=missing.what,
            found="none yet",
            where=str(found.root),
            action="; then ".join(f"testigo {command} {short(file)}" for command in missing.needs),
        ) from missing
    except ValueError as error:
        raise CampaignError(
            expected="days above 0", found=str(error), where="--days", action="give a number of days such as 3"
        ) from error
    written = _files(result, loaded, compared, html=html, picture=picture, calendar=calendar, start=start)
    if as_json:
        print_json(_document(result, sources, compared, held) | {"written": [str(path) for path in written]})
    else:
        _show(result, compared, held)
        for path in written:
            show(f"written: {short(path)}")
    ending(
        checked=f"measured: {'; '.join(f'{name} from {where}' for name, where in sources.items())}",
        not_checked="whether another machine is as fast: run its own pilot there",
        next_command=f"testigo run {named(campaign, workspace)}",
    )


def _wanted(campaign: Campaign, days: list[float] | None, price: float | None, margin: float | None) -> dict[str, Any]:
    """What the command line says, else the campaign, else the usual."""
    from testigo.rental import MARGIN

    budget = campaign.budget
    return {
        "days": days or (budget.days if budget else _DAYS),
        "price_per_hour": price if price is not None else budget.price_per_hour if budget else None,
        "currency": (budget.currency or "") if budget else "",
        "margin": margin or MARGIN,
    }


def _planned(
    root: Path, campaign: Campaign, wanted: dict[str, Any], *, pilot: Path | None = None, with_runs: bool = True
) -> tuple[RentalPlan, dict[str, str]]:
    from testigo.rental import plan_in

    return plan_in(root, campaign, pilot=pilot, with_runs=with_runs, **wanted)


def _pilots(root: Path, campaign: Campaign, wanted: dict[str, Any]) -> list[Piloted]:
    """Each pilot of the workspace with its device, its plan and the memory that it reached; the last one last."""
    from testigo.rental import NotMeasured
    from testigo.rental.gpus import Piloted, machine_of

    made = []
    for phases in sorted(root.glob("pilot/*/phases.json"), key=lambda path: path.stat().st_mtime):
        device, peak = machine_of(phases)
        try:
            made.append(
                Piloted(device, _planned(root, campaign, wanted, pilot=phases.parent, with_runs=False)[0], peak)
            )
        except NotMeasured:
            continue  # a pilot that was cut short
    if not made:
        raise NotMeasured("the pilot's second update", "pilot")
    return made


def _held(workspace: Workspace, campaign: Campaign) -> tuple[Held, ...]:
    """The plan as the pilot alone made it, beside what the ledger saw."""
    from testigo.rental import held_in

    if not workspace.ledger_path.exists():
        return ()
    with workspace.open_ledger() as ledger:
        return held_in(workspace.root, campaign, ledger.events())


def _files(
    result: RentalPlan,
    campaign: Campaign,
    compared: Sequence[Offer],
    *,
    html: Path | None,
    picture: Path | None,
    calendar: Path | None,
    start: datetime | None,
) -> list[Path]:
    """Write what was asked for, and say where."""
    if html is not None or picture is not None:
        from testigo.dossier.plan_page import picture_svg, plan_page

        if html is not None:
            _write(html, plan_page(result, campaign=campaign.name, language=campaign.language, offers=compared))
        if picture is not None:
            _write(picture, picture_svg(result))
    if calendar is not None:
        from testigo.rental.calendar import calendar as calendar_of

        begins = (start or datetime.now()).astimezone()
        _write(calendar, calendar_of(result, campaign=campaign.name, start=begins))
    return [path for path in (html, picture, calendar) if path is not None]


def _write(path: Path, content: str | bytes) -> None:
    try:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    except OSError as error:
        raise WorkspaceError(
            expected="a file that can be written",
            found=error.strerror or str(error),
            where=str(path),
            action="name another place",
        ) from error


def _document(
    result: RentalPlan, sources: dict[str, str], compared: Sequence[Offer], held: Sequence[Held]
) -> dict[str, Any]:
    from testigo.rental import of_all

    all_of_it = of_all(held)
    return {
        **result.to_json(),
        "measured": sources,
        "gpus": [asdict(offer) for offer in compared],
        "planned_against_real": {
            "pieces": [asdict(one) for one in held],
            "planned_seconds": all_of_it[0] if all_of_it else None,
            "real_seconds": all_of_it[1] if all_of_it else None,
        },
    }


def _show(result: RentalPlan, compared: Sequence[Offer], held: Sequence[Held]) -> None:
    from testigo.rental import duration, of_all, told_difference

    show_table(("package", "time used", "paid", "of it used", "what fits"), result.package_rows())
    show()
    show_table(("piece", "time", "how"), result.piece_rows())
    if compared:
        show()
        if not any(offer.seconds for offer in compared):
            show(f"On other GPUs: {compared[0].basis}. A pilot on one of them measures it in minutes; or give a table")
            show("with a row for this machine with --gpus. `fits` is by the memory that the pilot reached here.")
        elif any(offer.basis.startswith("estimate") for offer in compared):
            show("On other GPUs, by ratios of data sheets: estimates, until a pilot measured there.")
        rows = [
            (
                offer.gpu.name,
                f"{offer.gpu.memory_gb:g} GB",
                {True: "yes", False: "no", None: "?"}[offer.fits],
                duration(offer.seconds) if offer.seconds is not None else "",
                f"{offer.cost:,.2f} {result.currency}".strip() if offer.cost is not None else "",
                offer.basis,
            )
            for offer in compared
        ]
        columns = ("GPU", "memory", "fits", "everything", "cost", "basis")
        known = len(columns) if any(offer.seconds for offer in compared) else 3
        show_table(columns[:known], [row[:known] for row in rows])
    all_of_it = of_all(held)
    if all_of_it:
        show()
        done = [one for one in held if one.real_seconds is not None]
        show_table(
            ("planned against real", "planned", "real"),
            [(one.name, duration(one.planned_seconds), duration(one.real_seconds or 0.0)) for one in done],
        )
        planned, real = all_of_it
        show(
            f"After pilot and baseline what was done was planned at {duration(planned)} without the margin and took "
            f"{duration(real)}: {told_difference(planned, real)}."
        )
