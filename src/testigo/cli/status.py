"""`testigo status`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from testigo.beginning import become
from testigo.cli.opening import find_workspace
from testigo.cli.output import CampaignPath, JsonFlag, WorkspaceFlag, ending, named, print_json, short, show, show_table
from testigo.errors import CampaignError
from testigo.room import Notice

if TYPE_CHECKING:
    from testigo.campaign.workspace import Workspace
    from testigo.ledger import Event, Run

_TAIL_BYTES = 1 << 20


@dataclass(frozen=True)
class RunNow:
    """One run as it stands: from the ledger, and while it runs from its steps."""

    id: str
    variant: str
    seed: int
    state: str
    cause: str
    updates: int
    loss_nats_per_token: float | None


def status(
    campaign: CampaignPath,
    workspace: WorkspaceFlag = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Go on showing it, with small curves, until the campaign ends or Ctrl-C.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Say where a campaign stands: each run with its state, its cause and its updates. Nothing is changed.

    Example: testigo status campaign.yaml --watch
    """
    from testigo.gates.predicted import Measured
    from testigo.ledger import campaign_state
    from testigo.ledger.question import IN_WORDS, question_in

    found = find_workspace(campaign, workspace)
    if watch:
        _watch(found.root, as_json=as_json)
    with found.open_ledger() as ledger:
        events = ledger.events()
        runs = [_now(found, run) for run in ledger.runs()]
    state = campaign_state({run.id: run.state for run in runs}, events)
    memory = _memory(events)
    question = question_in(found.root)
    if as_json:
        document = {
            "campaign": found.campaign_name,
            "state": state,
            "asks": question,
            "runs": [_document(run) for run in runs],
        }
        print_json({**document, "memory": memory})
    else:
        show(f"{found.campaign_name}: {state}")
        if question:
            show(f"It {IN_WORDS[question]}.", "bold yellow")
        if runs:
            show_table(("run", "variant", "seed", "state", "updates", "loss", "cause"), [_row(run) for run in runs])
        if memory is not None:
            show(Measured.from_json(memory).in_words(), "dim")
    ending(
        checked="the ledger's events and the runs' steps",
        not_checked="whether the record is whole; `testigo ledger verify` does",
        next_command="answer the question at the terminal that asks it"
        if question
        else _next(state, events, named(campaign, workspace), found.dossier),
    )


def _watch(root: Path, *, as_json: bool) -> None:
    if as_json:
        raise CampaignError(
            expected="--watch, which draws, or --json, which prints one document",
            found="both",
            where="the command line",
            action="leave one of them out",
        )
    # This process becomes the view: the page's rooms and the commands do not know each other.
    become("testigo.page.screen", [str(root)])


def _memory(events: Sequence[Event]) -> dict[str, Any] | None:
    """How the last pilot's memory compares with its prediction."""
    from testigo.ledger import kinds

    told = [event.body.get("memory") for event in events if event.kind == kinds.PILOT_FINISHED]
    return next((memory for memory in reversed(told) if memory), None)


def _now(workspace: Workspace, run: Run) -> RunNow:
    from testigo.ledger import process_is_alive

    step = _last_step(workspace.run(run.id) / "steps.jsonl")
    state, cause, updates = run.state, run.cause, run.updates
    if state == "running":
        updates = max(updates, int(step.get("update", 0)))
        if run.process is not None and process_is_alive(run.process) is False:
            state, cause = "interrupted", "its process is gone"
        elif shortage := Notice.read(workspace.run(run.id)):
            cause = f"waits: the disk is full ({shortage})"
    return RunNow(run.id, run.variant, run.seed, state, cause, updates, step.get("loss"))


def _last_step(path: Path) -> dict[str, Any]:
    """The last whole line about an update; a line that is still being written is passed over."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - _TAIL_BYTES))
            lines = file.read().split(b"\n")
    except OSError:
        return {}
    for line in reversed(lines):
        try:
            step = json.loads(line)
        except ValueError:
            continue
        if isinstance(step, dict) and isinstance(step.get("update"), int) and "validation_loss" not in step:
            return step
    return {}


def _document(run: RunNow) -> dict[str, Any]:
    return {
        "id": run.id,
        "variant": run.variant,
        "seed": run.seed,
        "state": run.state,
        "cause": run.cause,
        "updates": run.updates,
    }


def _row(run: RunNow) -> tuple[str, ...]:
    loss = "" if run.loss_nats_per_token is None else f"{run.loss_nats_per_token:.4f}"
    return run.id, run.variant, str(run.seed), run.state, str(run.updates), loss, run.cause


def _next(state: str, events: Sequence[Event], name: str, dossier: Path) -> str:
    from testigo.ledger import kinds

    if state == "running":
        return f"testigo status {name}"
    if state == "gate-failed":
        return f"testigo pilot {name}"
    if state != "completed":
        return f"testigo run {name}"
    if any(event.kind == kinds.TEST_OPENED for event in events):
        return f"testigo verify {short(dossier)}"
    return f"testigo open-test {name} --because '…'"
