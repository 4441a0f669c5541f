"""`testigo note`."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from testigo.cli.by_hand import person
from testigo.cli.opening import find_workspace
from testigo.cli.output import CampaignPath, JsonFlag, WorkspaceFlag, ending, print_json, short, show, show_table
from testigo.errors import LedgerError, TestigoError

if TYPE_CHECKING:
    from testigo.campaign.workspace import Workspace


def note(
    campaign: CampaignPath,
    text: Annotated[
        str | None, typer.Argument(metavar="[TEXT]", help="The note; - reads it from standard input; none lists all.")
    ] = None,
    run: Annotated[str | None, typer.Option("--run", metavar="RUN", help="The run that it is about.")] = None,
    gate: Annotated[str | None, typer.Option("--gate", metavar="CODE", help="The rule that it is about.")] = None,
    invalid: Annotated[
        bool, typer.Option("--invalid", help="Declare the run invalid, with the text as the reason. It stays.")
    ] = False,
    workspace: WorkspaceFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Write an observation or a decision into the ledger, dated; it is never changed and goes into the dossier.

    Example: testigo note campaign.yaml "the loss is noisy after update 40" --run control-s0-1a2b3c4d5e
    """
    from testigo.ledger import kinds

    found = find_workspace(campaign, workspace)
    with found.open_ledger() as ledger:
        if text is None and not invalid:
            _list(ledger.events(kinds.NOTE, run), as_json)
        elif invalid:
            _needs_run(run)
            ended = ledger.invalidate_run(str(run), reason=_words(text), by=person())
            event = ledger.events(kinds.RUN_INVALIDATED, run)[-1]
            _tell(
                event.number, f"{run} is invalid now; it was {ended.previous_state}, and it stays", as_json, run, gate
            )
        else:
            if run is not None:
                _check_run(run, [known.id for known in ledger.runs()])
            body = {"text": _words(text), "gate": _gate(gate, _known_codes(found, gate))}
            event = ledger.append(kinds.NOTE, body, run=run)
            _tell(event.number, "noted", as_json, run, body["gate"])
    ending(next_command=f"testigo status {short(campaign)}")


def _list(events: Any, as_json: bool) -> None:
    if as_json:
        notes = [{"number": e.number, "time": e.time, "run": e.run, **e.body} for e in events]
        print_json({"notes": notes})
    else:
        rows = [(str(e.number), e.time[:19], e.run or e.body.get("gate") or "", e.body.get("text", "")) for e in events]
        show_table(("number", "time (UTC)", "about", "note"), rows)


def _tell(number: int, what: str, as_json: bool, run: str | None, gate: str | None) -> None:
    if as_json:
        print_json({"ok": True, "event": number, "run": run, "gate": gate})
    else:
        show(f"event {number}: {what}")


def _words(text: str | None) -> str:
    words = (sys.stdin.read() if text == "-" else text or "").strip()
    if not words:
        raise TestigoError(
            expected="a note in words", found="nothing", where="testigo note", action='testigo note campaign.yaml "…"'
        )
    return words


def _gate(code: str | None, known: frozenset[str]) -> str | None:
    if code is None or code.upper() in known:
        return code and code.upper()
    raise TestigoError(
        expected="the code of a rule, such as T104",
        found=code if not re.fullmatch(r"[A-Z]\d{3}", code.upper()) else f"{code.upper()}, which no rule has",
        where="--gate",
        action="`testigo explain` lists the codes",
    )


def _known_codes(workspace: Workspace, gate: str | None) -> frozenset[str]:
    """Codes of the rules: Testigo's, those of the campaign's own files."""
    from testigo.campaign import load
    from testigo.gates import all_rules

    if gate is None:
        return frozenset()
    own: tuple[Path, ...] = ()
    file = workspace.campaign_path
    if file is not None and file.is_file():
        loaded = load(file)
        own = tuple(loaded.folder / name for name in loaded.rules.files)
    return frozenset(rule.code for rule in all_rules(own))


def _needs_run(run: str | None) -> None:
    if run is None:
        raise TestigoError(
            expected="the run that is invalid",
            found="no --run",
            where="testigo note --invalid",
            action="name it with --run; `testigo status` lists the runs",
        )


def _check_run(run: str, known: list[str]) -> None:
    if run not in known:
        raise LedgerError(
            expected="a run of this campaign",
            found=f"{run!r}; known are {', '.join(known) or 'none yet'}",
            where="--run",
            action="give one of these ids",
        )
