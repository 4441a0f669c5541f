"""`testigo pilot`."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import typer

from testigo.cli.findings import print_verdict
from testigo.cli.opening import opened
from testigo.cli.output import (
    CampaignPath,
    JsonFlag,
    LedgerFlag,
    WorkspaceFlag,
    ending,
    named,
    print_json,
    short,
    show,
    show_table,
)
from testigo.counting import counted
from testigo.errors import GateFailed

_COLUMNS = (
    "phase", "inputs", "allocated_peak_bytes", "reserved_peak_bytes", "resident_peak_bytes", "seconds", "verdict",
)  # fmt: skip


def pilot(
    campaign: CampaignPath, workspace: WorkspaceFlag = None, ledger: LedgerFlag = None, as_json: JsonFlag = False
) -> None:
    """Go through every phase once, on the longest rows, and judge what was seen. Exit code 1 when a gate stops.

    Example: testigo pilot campaign.yaml
    """
    with opened(campaign, workspace, ledger) as grounds:
        from testigo.conductor import measure
        from testigo.pilot.verdict import judge_pilot, verdict_to_json

        with suppress(GateFailed):  # printed below with all that passed
            measure.pilot(grounds)
        folder = measure.pilot_folder(grounds)
        verdict = judge_pilot(folder, grounds.campaign)
        phases, compared = measure.phases_of(folder), measure.memory_of(folder)
    if as_json:
        rows = [{name: row.get(name) for name in _COLUMNS} for row in phases]
        memory = None if compared is None else compared.to_json()
        print_json({**verdict_to_json(verdict), "phases": rows, "memory": memory})
    else:
        print_phases(phases)
        if compared is not None:
            show(compared.in_words())
        print_verdict(verdict)
    _end(verdict.ok, len(verdict.passed), len(verdict.blind), folder, named(campaign, workspace))


def print_phases(phases: list[dict[str, Any]]) -> None:
    """The phase table."""
    on_device = any(row.get("allocated_peak_bytes") for row in phases)
    columns = ["phase", "inputs", *(["allocated", "reserved"] if on_device else []), "resident", "seconds", "verdict"]
    rows = []
    for row in phases:
        device = [_mib(row.get("allocated_peak_bytes")), _mib(row.get("reserved_peak_bytes"))] if on_device else []
        seconds = f"{row['seconds']:.1f}" if "seconds" in row else ""
        rows.append(
            [row["phase"], row["inputs"], *device, _mib(row.get("resident_peak_bytes")), seconds, row["verdict"]]
        )
    show_table(columns, rows)


def _mib(n_bytes: int | None) -> str:
    return f"{n_bytes / 2**20:.0f} MiB" if n_bytes is not None else ""


def _end(ok: bool, n_passed: int, n_skipped: int, folder: Path, campaign: str) -> None:
    ending(
        checked=f"{counted(n_passed, 'rule')} passed; the evidence is in {short(folder)}",
        not_checked=f"{counted(n_skipped, 'rule')}; whether the result is better"
        if n_skipped
        else "whether the result is better",
        next_command=f"testigo run {campaign}" if ok else "mend what stops, and run the pilot again",
    )
    if not ok:
        raise typer.Exit(1)
