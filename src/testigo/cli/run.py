"""`testigo run`."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from testigo.cli.opening import opened
from testigo.cli.output import (
    CampaignPath,
    JsonFlag,
    LedgerFlag,
    WorkspaceFlag,
    ending,
    named,
    print_json,
    say,
    short,
    show,
)
from testigo.errors import WorkspaceError

if TYPE_CHECKING:
    from testigo.conductor.grounds import Grounds
    from testigo.inspection.seen import SeenRow

_WIDTH = 79
_ON_TERMINAL = 8  # samples; more are read more easily on the page
AmendFlag = Annotated[
    str | None, typer.Option("--amend", metavar="REASON", help="Why the campaign was changed after runs had begun.")
]
YesFlag = Annotated[
    bool, typer.Option("--yes", help="Confirm samples without looking; the ledger says that nobody looked.")
]


def run(
    campaign: CampaignPath,
    workspace: WorkspaceFlag = None,
    ledger: LedgerFlag = None,
    amend: AmendFlag = None,
    yes: YesFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """The whole campaign: baseline, pilot, every run, comparison, export, dossier. Run it again to go on.

    Example: testigo run campaign.yaml
    """
    from testigo.conductor import story

    with opened(campaign, workspace, ledger) as grounds:
        _confirm_samples(grounds, looks=not yes)
        comparison = story.run(grounds, amend=amend)
        document = report(grounds, comparison)
        following = None if comparison is not None else grounds.way_on()
    _print(document, named(campaign, workspace), as_json, following)


def _confirm_samples(grounds: Grounds, *, looks: bool) -> None:
    """Ask once for this encoding whether samples look right.

    Where there is no terminal to ask on, and with --yes, the campaign goes on and the ledger says that nobody looked.
    """
    from testigo.conductor import samples

    if samples.standing(grounds) is not None:
        return
    if not looks:
        samples.record(grounds, how="--yes")
    elif not (sys.stdin.isatty() and sys.stderr.isatty()):
        samples.record(grounds, how="no terminal")
        grounds.reporter.say("samples: nobody looked, since there is no terminal to ask on; the ledger says so")
    else:
        shown = _shown(grounds)
        samples.record(grounds, how="run", by=_who_confirms(grounds, shown), shown=shown)


def _shown(grounds: Grounds) -> tuple[SeenRow, ...]:
    """Samples of every category: in the terminal as many as can be read there, on a page all of them."""
    from testigo.cli.tokens import print_rows, screen
    from testigo.conductor import samples
    from testigo.disk import write_atomically
    from testigo.inspection.choosing import each_category
    from testigo.inspection.page import html
    from testigo.inspection.sights import sight

    material, folder = samples.material(grounds), samples.folder(grounds)
    shown = samples.to_confirm(material)
    page = folder / "samples.html"
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(page, html(sight(material, each_category(material), folder=folder, reporter=grounds.reporter)))
    print_rows(screen(results=False), shown[:_ON_TERMINAL])
    more = len(shown) - _ON_TERMINAL
    say(f"{f'{more} more categories, each' if more > 0 else 'Each'} box by box on a page: {short(page)}")
    return shown


def question_of(shown: Sequence[SeenRow]) -> str:
    """What is asked; it tells the marks only where samples have some, as those of a class head have not."""
    has_marks = any(token.counts for row in shown for token in row.tokens)
    return f"Do these samples show what the model should see{' (▶ … ◀ is learned)' if has_marks else ''}?"


def _who_confirms(grounds: Grounds, shown: Sequence[SeenRow]) -> str:
    """The name of who looked and said yes; while it is asked, the workspace says that somebody is waited for."""
    from testigo.ledger.question import SAMPLES, asking

    with asking(grounds.workspace.root, SAMPLES):
        return _answered(grounds, question_of(shown))


def _answered(grounds: Grounds, question: str) -> str:
    if not typer.confirm(question, err=True):
        raise WorkspaceError(
            expected="samples that show what the model should see",
            found="somebody looked and said no",
            where=str(grounds.campaign.path),
            action=f"mend rows, task or template; testigo show {short(grounds.campaign.path)} shows them again",
        )
    name = ""
    while not name:
        name = str(typer.prompt("Who confirms? Your name, for the ledger", err=True)).strip()
    return name


def report(grounds: Grounds, comparison: Any) -> dict[str, Any]:
    """What a whole campaign came to."""
    from testigo.campaign.withdrawn import without_control

    runs = [{"id": run.id, "variant": run.variant, "seed": run.seed, "state": run.state, "cause": run.cause,
             "updates": run.updates} for run in grounds.ledger.runs()]  # fmt: skip
    return {
        "ok": comparison is not None,
        "conclusion": comparison.told if comparison is not None else without_control(grounds.ledger.runs()),
        "comparison": comparison.to_json() if comparison is not None else None,
        "runs": runs,
        "dossier": grounds.workspace.dossier / "index.html",
    }


def _print(document: dict[str, Any], name: str, as_json: bool, following: str | None) -> None:
    if as_json:
        print_json(document)
    else:
        show(textwrap.fill(document["conclusion"], _WIDTH), "bold")
        show(f"dossier: {short(document['dossier'])}")
    if not document["ok"]:
        ending(
            checked="every phase by the pilot; each run to the end that it came to",
            not_checked="whether anything is better than the baseline",
            next_command=following or f"testigo status {name}",
        )
        raise typer.Exit(1)
    ending(
        checked="every phase by the pilot, every run, the validation rows, the export in a fresh process",
        not_checked="the sealed test rows",
        next_command=f"testigo open-test {name} --because '…'",
    )
