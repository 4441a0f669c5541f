"""What a person decides while a campaign goes on, each an event: stop a run, waive a rule, amend a change."""

from __future__ import annotations

import re
from collections.abc import Collection

from testigo.campaign import Campaign, Workspace, planned_runs, run_id
from testigo.campaign.registration import register
from testigo.campaign.waiving import with_waiver
from testigo.errors import CampaignError, LedgerError, TestigoError, WorkspaceError
from testigo.ledger import Event, Ledger, kinds
from testigo.training.by_hand import ask_to_stop

_LEAST_WORDS = 2
_GOES_ON = ("running", "interrupted", "planned")


def stop(workspace: Workspace, ledger: Ledger, run: str, *, by: str, reason: str) -> Event:
    """Ask a run to stop: it validates, saves, and ends as stopped-early. One that waits ends after its next update.

    Raises
    ------
    LedgerError
        When the ledger knows no such run, or it has ended.
    """
    runs = {one.id: one for one in ledger.runs()}
    state = runs[run].state if run in runs else ""
    if state not in _GOES_ON:
        going = [one.id for one in runs.values() if one.state in _GOES_ON]
        raise LedgerError(
            expected="a run that goes on",
            found=f"{run} is {state}" if state else f"no run {run!r}",
            where=ledger.name,
            action=f"name one of {', '.join(going)}" if going else "nothing is left to stop: testigo status lists all",
        )
    event = ledger.append(kinds.RUN_STOP_ASKED, {"by": by, "reason": reason}, run=run)
    folder = workspace.run(run)
    folder.mkdir(parents=True, exist_ok=True)
    ask_to_stop(folder, by=by, reason=reason)
    return event


def waive(campaign: Campaign, ledger: Ledger, code: str, *, reason: str, stopping: Collection[str]) -> Event:
    """Write a waiver into the campaign file, with its reason, and into the ledger.

    Parameters
    ----------
    stopping
        Codes of the rules that stop a campaign.

    Raises
    ------
    CampaignError
        When there is no such rule, or it is waived already.
    """
    reason = words(reason, f"testigo waive {campaign.path.name} {code}")
    if code not in stopping:
        raise CampaignError(
            expected="the code of a rule that stops a campaign, such as E107",
            found=code,
            where="testigo waive",
            action="testigo explain lists the rules; one that only warns needs no waiver",
        )
    with_waiver(campaign.path, code, reason)
    return ledger.append(kinds.GATE_WAIVED, {"code": code, "reason": reason})


def amend(campaign: Campaign, ledger: Ledger, *, reason: str) -> str:
    """Register what changed in the campaign file, with the reason, without a run: `amended` or `unchanged`.

    Rows and base count as they were registered; the next start of the campaign holds them against that.

    Raises
    ------
    WorkspaceError
        When nothing was registered yet, so that there is nothing to amend.
    """
    reason = words(reason, f"testigo amend {campaign.path.name}")
    freezes = [event for event in ledger.events() if event.kind in kinds.FREEZES]
    if not freezes:
        raise WorkspaceError(
            expected="a campaign that was registered",
            found="nothing registered yet: it may still be changed freely",
            where=ledger.name,
            action="change the file; testigo run registers it",
        )
    contents = freezes[-1].body.get("contents", {})
    corpus, base = contents.get("the corpus", ""), contents.get("the base", "")
    runs = [run_id(planned, corpus=corpus, base=base) for planned in planned_runs(campaign)]
    return register(campaign, ledger, reason=reason, runs=runs)


def words(text: str, where: str) -> str:
    """A reason, which must be in words.

    Raises
    ------
    TestigoError
        When it has fewer than two.
    """
    if len(re.findall(r"\w{2,}", text)) >= _LEAST_WORDS:
        return text.strip()
    raise TestigoError(
        expected="a reason in words",
        found=repr(text) if text else "none",
        where=where,
        action='say it with --because "…"',
    )
