"""The freeze: what was promised before the compute goes into the ledger, and later changes stand beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from testigo.campaign.campaign import Campaign
from testigo.errors import WorkspaceError
from testigo.ledger import Ledger, kinds

_NOTHING: Mapping[str, str] = MappingProxyType({})


def register(
    campaign: Campaign,
    ledger: Ledger,
    *,
    reason: str | None = None,
    contents: Mapping[str, str] = _NOTHING,
    runs: Sequence[str] = (),
) -> str:
    """Freeze the campaign in the ledger, or amend the freeze.

    The first call registers. A later call with the same campaign writes nothing. A changed one is an amendment: before
    the first run began it needs no reason, since nothing was trained yet; afterwards it does.

    Parameters
    ----------
    reason
        Why the campaign was changed after a run began.
    contents
        Digests of what the campaign only names, such as its rows and its base: other content is a change too.
    runs
        Ids of the runs that follow from the campaign.

    Returns
    -------
    `registered`, `unchanged` or `amended`.

    Raises
    ------
    WorkspaceError
        When the campaign changed after a run began and no reason is given.
    """
    frozen = campaign.canonical()
    events = [e for e in ledger.events() if e.kind in kinds.FREEZES]
    if not events:
        body = {"identity": campaign.identity(), "frozen": frozen, "beside": campaign.promised_beside()}
        ledger.append(kinds.CAMPAIGN_REGISTERED, {**body, "contents": dict(contents), "runs": list(runs)})
        return "registered"
    before = events[-1].body
    known = before.get("contents", {})
    others = {name: [known[name], new] for name, new in contents.items() if known.get(name, new) != new}
    changes = changes_since(before, campaign) | {f"content of {name}": both for name, both in others.items()}
    if before["identity"] == campaign.identity() and not changes:
        return "unchanged"
    begun = _begun(ledger)
    if begun and not reason:
        raise _changed(
            changes,
            begun,
            ledger,
            action=f'take the change back, give the reason with testigo run {campaign.path.name} --amend "…", '
            "or name another folder with --workspace",
        )
    body = {
        "identity": campaign.identity(),
        "frozen": frozen,
        "beside": campaign.promised_beside(),
        "contents": {**known, **contents},
        "runs": list(runs),
        "changes": changes,
        "reason": reason or "before the first run",
    }
    ledger.append(kinds.CAMPAIGN_AMENDED, body)
    return "amended"


def require_registered(campaign: Campaign, ledger: Ledger) -> None:
    """Refuse a campaign file that was changed after a run began and not amended: results are judged by the promise.

    It holds the file against the last freeze, as the next start of the campaign does, and writes nothing.

    Raises
    ------
    WorkspaceError
        When the file says something else than what was registered or last amended.
    """
    freezes = [event for event in ledger.events() if event.kind in kinds.FREEZES]
    begun = _begun(ledger)
    changes = changes_since(freezes[-1].body, campaign) if freezes else {}
    if not freezes or not begun or (freezes[-1].body["identity"] == campaign.identity() and not changes):
        return
    raise _changed(
        changes,
        begun,
        ledger,
        action=f'take the change back, or give the reason: testigo amend {campaign.path.name} --because "…"',
    )


def changes_since(freeze: Mapping[str, Any], campaign: Campaign) -> dict[str, list[Any]]:
    """What a campaign says otherwise than the body of a freeze. An earlier version's kept no question and no budget."""
    beside, frozen = freeze.get("beside"), freeze.get("frozen")
    changes = dict(changes_between(frozen, campaign.canonical())) if isinstance(frozen, Mapping) else {}
    return changes | (dict(changes_between(beside, campaign.promised_beside())) if isinstance(beside, Mapping) else {})


def set_since(freeze: Mapping[str, Any], campaign: Campaign) -> tuple[str, ...]:
    """Keys that the version which wrote a freeze did not know, and that the file does not set: they have defaults."""
    frozen = freeze.get("frozen")
    changes = changes_between(frozen, campaign.canonical()) if isinstance(frozen, Mapping) else ()
    return tuple(key for key, _ in changes if not _has(frozen, key) and not _has(campaign.as_written, key))


def _has(settings: Any, key: str) -> bool:
    first, _, rest = key.partition(".")
    is_there = isinstance(settings, Mapping) and first in settings
    return is_there and (not rest or _has(settings[first], rest))


def _begun(ledger: Ledger) -> int:
    return sum(1 for run in ledger.runs() if run.attempts)


def _changed(changes: Mapping[str, Sequence[Any]], begun: int, ledger: Ledger, *, action: str) -> WorkspaceError:
    named = "; ".join(f"{key}: {_short(old)} → {_short(new)}" for key, (old, new) in list(changes.items())[:5])
    return WorkspaceError(
        expected="the campaign as it was registered in this workspace",
        found=f"changed after {begun} {'run' if begun == 1 else 'runs'} began: {named}",
        where=ledger.name,
        action=action,
    )


def _short(value: Any) -> str:
    return f"{value[:12]}…" if isinstance(value, str) and len(value) == 64 else repr(value)


def changes_between(old: Any, new: Any, at: str = "") -> Iterator[tuple[str, list[Any]]]:
    """Where two canonical forms differ, with both values."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in [*old, *(key for key in new if key not in old)]:
            yield from changes_between(old.get(key), new.get(key), f"{at}.{key}" if at else str(key))
    elif old != new:
        yield at, [old, new]
