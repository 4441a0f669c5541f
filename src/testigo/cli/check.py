"""`testigo check`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from testigo.cli.corpus_facts import show_corpus, show_diff
from testigo.cli.findings import print_verdict
from testigo.cli.opening import opened
from testigo.cli.output import CampaignPath, JsonFlag, LedgerFlag, WorkspaceFlag, ending, named, print_json, show_table
from testigo.cli.pairs import duplicates_to_json, print_duplicates
from testigo.signs import in_one_line

if TYPE_CHECKING:
    from testigo.conductor.grounds import Grounds
    from testigo.conductor.outdated import Outdated
    from testigo.corpus import CorpusDiff

_TOLD = ("fingerprint", "sources", "clean", "dropped", "images", "splits", "split", "duplicates")


def check(
    campaign: CampaignPath,
    diff: Annotated[
        str, typer.Option("--diff", metavar="OLD", help="Tell what changed since this corpus (or workspace).")
    ] = "",
    workspace: WorkspaceFlag = None,
    ledger: LedgerFlag = None,
    as_json: JsonFlag = False,
) -> None:
    """Check the campaign file, the rows, and the exact tensors made of them, without loading the model.

    With --diff it also tells which rows, rules and splits differ from an earlier corpus, and which results in the
    workspace belong to another corpus. OLD is a fingerprint (its first digits do), a corpus folder or a workspace.

    Example: testigo check campaign.yaml --diff 3f2a91c0
    """
    with opened(campaign, workspace, ledger) as grounds:
        from testigo.pilot.check import check as check_data
        from testigo.pilot.verdict import verdict_to_json

        corpus = grounds.corpus
        changes, stale = _compared(diff, grounds) if diff else (None, ())
        checked = check_data(grounds.campaign, corpus, grounds.base)
        counts = corpus.counts
    verdict = checked.verdict
    if as_json:
        document = {**verdict_to_json(verdict), "lengths": checked.lengths, "rows": counts}
        document["duplicates"] = duplicates_to_json(corpus.manifest)
        document |= {"corpus": {key: corpus.manifest.get(key) for key in _TOLD}}
        if changes is not None:
            document["diff"] = {**changes.to_json(), "outdated": [one.to_json() for one in stale]}
        print_json(document)
    else:
        if changes is not None:
            show_diff(changes, stale)
        show_corpus(corpus.manifest)
        columns = ("split", "rows", "median", "p95", "longest", "longest row", "longest answer", "dropped", "shortened")
        show_table(
            columns,
            [_cells(split, lengths) for split, lengths in checked.lengths.items()],
        )
        print_duplicates(corpus.manifest)
        print_verdict(verdict)
    ending(
        checked=f"{counts['train'] + counts['validation']} rows, {len(verdict.passed)} rules",
        not_checked=f"the {counts['test']} sealed test rows; everything that needs the model (testigo pilot)",
        next_command=f"testigo show {named(campaign, workspace)} --raw 10",
    )
    if not verdict.ok:
        raise typer.Exit(1)


def _compared(old: str, grounds: Grounds) -> tuple[CorpusDiff, tuple[Outdated, ...]]:
    from testigo.conductor.outdated import earlier_corpus, outdated
    from testigo.corpus import compare_corpora

    earlier = earlier_corpus(old, grounds.workspace, grounds.ledger)
    stale = outdated(grounds.workspace, grounds.ledger, grounds.corpus.fingerprint)
    return compare_corpora(earlier, grounds.corpus), stale


def _cells(split: str, lengths: dict[str, Any]) -> tuple[str, ...]:
    numbers = (lengths["rows"], f"{lengths['median']:.0f}", f"{lengths['p95']:.0f}", lengths["longest"])
    after = (lengths["longest_answer"], lengths["dropped"], lengths["input_truncated"])
    return (split, *map(str, numbers), in_one_line(lengths["longest_row"]), *map(str, after))
