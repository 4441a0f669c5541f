"""`testigo ledger list | show | verify | export`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from testigo.cli.by_hand import person
from testigo.cli.opening import find_workspace
from testigo.cli.output import (
    CampaignPath,
    JsonFlag,
    WorkspaceFlag,
    ending,
    named,
    print_json,
    short,
    show,
    show_as_it_is,
    show_table,
)
from testigo.errors import TestigoError

if TYPE_CHECKING:
    from testigo.ledger import Event, Ledger

app = typer.Typer(
    no_args_is_help=True, help="The record of what happened: list, show, verify, export; declare a run invalid."
)
_LONGEST_BODY = 90


@app.command("list")
def list_events(
    campaign: CampaignPath,
    kind: Annotated[str | None, typer.Option(metavar="KIND", help="Only events of this kind.")] = None,
    run: Annotated[str | None, typer.Option(metavar="RUN", help="Only events of this run.")] = None,
    last: Annotated[int | None, typer.Option(metavar="N", min=1, help="Only the last N of them.")] = None,
    workspace: WorkspaceFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """List what happened, in order.

    Example: testigo ledger list campaign.yaml --kind run-ended
    """
    with _ledger(campaign, workspace) as ledger:
        events = ledger.events(kind, run)
    events = events[-last:] if last else events
    if as_json:
        print_json({"events": [_document(event) for event in events]})
    else:
        rows = [(str(e.number), e.time[:19], e.kind, e.run or "", _brief(e.body)) for e in events]
        show_table(("number", "time (UTC)", "kind", "run", "what"), rows)
    ending(not_checked="whether the record is whole", next_command=f"testigo ledger verify {short(campaign)}")


@app.command("show")
def show_event(
    campaign: CampaignPath,
    number: Annotated[int, typer.Argument(metavar="NUMBER", help="The event's number, from 1.")],
    workspace: WorkspaceFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Show one event whole.

    Example: testigo ledger show campaign.yaml 3
    """
    with _ledger(campaign, workspace) as ledger:
        events = ledger.events()
    found = next((event for event in events if event.number == number), None)
    if found is None:
        raise TestigoError(
            expected=f"a number from 1 to {len(events)}" if events else "an event",
            found=str(number) if events else "an empty ledger",
            where="testigo ledger show",
            action=f"testigo ledger list {short(campaign)}",
        )
    if as_json:
        print_json(_document(found))
    else:
        show(f"{found.number}  {found.time}  {found.kind}  {found.run or ''}".rstrip())
        show_as_it_is(json.dumps(found.body, indent=2, ensure_ascii=False, sort_keys=True))
        show(f"follows {found.previous}\ndigest  {found.digest}")
    ending(not_checked="whether the record is whole", next_command=f"testigo ledger verify {short(campaign)}")


@app.command()
def verify(
    campaign: Annotated[
        Path,
        typer.Argument(
            metavar="CAMPAIGN", help="The campaign file, the workspace folder, or an exported events.jsonl."
        ),
    ],
    workspace: WorkspaceFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Check that no event was changed, removed or put in between. Ends with exit code 1 when one was.

    Example: testigo ledger verify campaign.yaml
    """
    if campaign.suffix == ".jsonl":
        from testigo.ledger import verify_export

        faults = verify_export(campaign)
        n_events = sum(1 for line in campaign.read_bytes().splitlines() if line.strip())
        not_checked = "whether the last events were cut off: a file alone cannot show it"
        next_command = "get an unchanged copy" if faults else "testigo verify DOSSIER"
    else:
        with _ledger(campaign, workspace) as ledger:
            faults = ledger.verify()
            n_events = _count(ledger)
        not_checked = "what the events say about files; `testigo verify` does"
        next_command = f"testigo {'ledger list' if faults else 'status'} {short(campaign)}"
    if as_json:
        print_json({"ok": not faults, "events": n_events, "faults": list(faults)})
    else:
        show("\n".join(faults) if faults else f"{n_events} events, each as it was written.")
    ending(
        checked="the order, the content and the chain of all events",
        not_checked=not_checked,
        next_command=next_command,
    )
    if faults:
        raise typer.Exit(1)


@app.command()
def invalid(
    campaign: CampaignPath,
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run; `testigo status` lists them.")],
    because: Annotated[str, typer.Option("--because", metavar="REASON", help="Why it is wrong. The report prints it.")],
    workspace: WorkspaceFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Declare that a run is invalid. It stays in the record and in the balance; comparisons leave it out and say so.

    Example: testigo ledger invalid campaign.yaml control-s0-1a2b3c4d5e --because "it read the rows of May"
    """
    from testigo.ledger import kinds

    with _ledger(campaign, workspace) as ledger:
        ended = ledger.invalidate_run(run, reason=because, by=person())
        event = ledger.events(kinds.RUN_INVALIDATED, run)[-1]
    if as_json:
        print_json({"ok": True, "event": event.number, "run": run, "was": ended.previous_state})
    else:
        show(f"event {event.number}: {run} is invalid now; it was {ended.previous_state}, and it stays")
    ending(
        not_checked="what was concluded with it: compare again",
        next_command=f"testigo compare {named(campaign, workspace)}",
    )


@app.command()
def export(
    campaign: CampaignPath,
    to: Annotated[Path, typer.Option("--to", metavar="FILE", help="The file to write; it must not exist.")] = Path(
        "events.jsonl"
    ),
    workspace: WorkspaceFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Write all events as JSON lines, which can be verified alone.

    Example: testigo ledger export campaign.yaml --to events.jsonl
    """
    if to.exists():
        raise TestigoError(
            expected="a file that does not exist yet",
            found="one of this name",
            where=str(to),
            action="name another with --to, or remove it",
        )
    with _ledger(campaign, workspace) as ledger:
        n_events = ledger.export(to)
    if as_json:
        print_json({"ok": True, "file": short(to), "events": n_events})
    else:
        show(f"{n_events} events in {short(to)}")
    ending(not_checked="the file just written", next_command=f"testigo ledger verify {short(to)}")


def _ledger(campaign: Path, workspace: Path | None) -> Ledger:

    return find_workspace(campaign, workspace).open_ledger()


def _count(ledger: Ledger) -> int:
    try:
        return ledger.head().events
    except TestigoError:  # a damaged file: `verify` has said so
        return 0


def _document(event: Event) -> dict[str, Any]:
    return {
        "number": event.number,
        "time": event.time,
        "kind": event.kind,
        "run": event.run,
        "body": event.body,
        "previous": event.previous,
        "digest": event.digest,
    }


def _brief(body: dict[str, Any]) -> str:
    text = ", ".join(f"{key}: {value if isinstance(value, str) else json.dumps(value)}" for key, value in body.items())
    return text if len(text) <= _LONGEST_BODY else text[: _LONGEST_BODY - 1] + "…"
