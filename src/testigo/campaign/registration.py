"""The freeze: what was promised before the compute goes into the ledger, and later changes stand beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from testigo.campaign.campaign import Campaign
from testigo.errors import WorkspaceError
from testigo.ledger import Ledger, kinds


def register(campaign: Campaign, ledger: Ledger, *, reason: str | None = None) -> str:
    """Freeze the campaign in the ledger, or amend the freeze.

    The first call registers. A later call with the same campaign writes nothing. A changed one is an amendment: before
    the first run began it needs no reason, since nothing was trained yet; afterwards it does.

    Returns
    -------
    `registered`, `unchanged` or `amended`.

    Raises
    ------
    WorkspaceError
        When the campaign changed after a run began and no reason is given.
    """
    frozen = campaign.canonical()
    events = [e for e in ledger.events() if e.kind in (kinds.CAMPAIGN_REGISTERED, kinds.CAMPAIGN_AMENDED)]
    if not events:
        ledger.append(kinds.CAMPAIGN_REGISTERED, {"identity": campaign.identity(), "frozen": frozen})
        return "registered"
    before = events[-1].body
    if before["identity"] == campaign.identity():
        return "unchanged"
    changes = dict(_changes(before["frozen"], frozen))
    runs = [run for run in ledger.runs() if run.attempts]
    if runs and not reason:
        named = "; ".join(f"{key}: {old!r} → {new!r}" for key, (old, new) in list(changes.items())[:5])
        raise WorkspaceError(
            expected="the campaign as it was registered in this workspace",
            found=f"changed after {len(runs)} runs began: {named}",
            where=str(ledger.path.parent),
            action='give the reason with --amend "…", take the change back, or name another folder with --workspace',
        )
    body = {
        "identity": campaign.identity(),
        "frozen": frozen,
        "changes": changes,
        "reason": reason or "before the first run",
    }
    ledger.append(kinds.CAMPAIGN_AMENDED, body)
    return "amended"


def _changes(old: Any, new: Any, at: str = "") -> Iterator[tuple[str, list[Any]]]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in [*old, *(key for key in new if key not in old)]:
            yield from _changes(old.get(key), new.get(key), f"{at}.{key}" if at else str(key))
    elif old != new:
        yield at, [old, new]
