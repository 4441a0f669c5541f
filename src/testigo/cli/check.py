"""`testigo check`."""

from __future__ import annotations

from typing import Any

import typer

from testigo.cli.findings import print_verdict
from testigo.cli.opening import opened
from testigo.cli.output import CampaignPath, JsonFlag, LedgerFlag, WorkspaceFlag, ending, named, print_json, show_table


def check(
    campaign: CampaignPath, workspace: WorkspaceFlag = None, ledger: LedgerFlag = None, as_json: JsonFlag = False
) -> None:
    """Check the campaign file, the rows, and the exact tensors made of them, without loading the model.

    Example: testigo check campaign.yaml
    """
    with opened(campaign, workspace, ledger) as grounds:
        from testigo.pilot.check import check as check_data
        from testigo.pilot.verdict import verdict_to_json

        checked = check_data(grounds.campaign, grounds.corpus, grounds.base)
        counts = grounds.corpus.counts
    verdict = checked.verdict
    if as_json:
        print_json({**verdict_to_json(verdict), "lengths": checked.lengths, "rows": counts})
    else:
        columns = ("split", "rows", "median", "p95", "longest", "longest row", "answer's longest", "dropped", "cut")
        show_table(
            columns,
            [_cells(split, lengths) for split, lengths in checked.lengths.items()],
        )
        print_verdict(verdict)
    ending(
        checked=f"{counts['train'] + counts['validation']} rows, {len(verdict.passed)} rules",
        not_checked=f"the {counts['test']} sealed test rows; everything that needs the model (testigo pilot)",
        next_command=f"testigo show {named(campaign, workspace)}",
    )
    if not verdict.ok:
        raise typer.Exit(1)


def _cells(split: str, lengths: dict[str, Any]) -> tuple[str, ...]:
    numbers = (lengths["rows"], f"{lengths['median']:.0f}", f"{lengths['p95']:.0f}", lengths["longest"])
    after = (lengths["longest_answer"], lengths["dropped"], lengths["input_truncated"])
    return (split, *map(str, numbers), lengths["longest_row"], *map(str, after))
