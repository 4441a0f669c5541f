"""The campaign's `rules:` and `waive:` held against the rules that there are."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from testigo.campaign.campaign import Campaign
from testigo.campaign.document import in_order
from testigo.campaign.fault import Fault
from testigo.campaign.wording import describe, names_of, suggestion
from testigo.errors import CampaignError
from testigo.rules import Rule


def check_rules(campaign: Campaign, rules: Iterable[Rule]) -> None:
    """Refuse limits and waivers of rules that do not exist: a typing error would otherwise change nothing, silently.

    Parameters
    ----------
    rules
        All rules that will judge: Testigo's, and the user's own.

    Raises
    ------
    CampaignError
        With every unknown code, unknown limit and limit of the wrong type, each with its line.
    """
    known = {rule.code: rule for rule in rules}
    faults = [*_limit_faults(campaign.rules.limits, known), *_waiver_faults(campaign.waive, known)]
    if faults:
        document = campaign._document
        marked = [(document.mark(fault.place, fault.at), fault) for fault in faults]
        raise CampaignError(
            problems=in_order(
                (mark, document.problem(mark, expected=fault.expected, found=fault.found, action=fault.action))
                for mark, fault in marked
            )
        )


def _limit_faults(limits: Mapping[str, Mapping[str, Any]], known: Mapping[str, Rule]) -> Iterator[Fault]:
    for code, own in limits.items():
        if code not in known:
            yield _unknown(("rules", "limits", code), code, known)
            continue
        defaults = known[code].limits
        for name, value in own.items():
            place = ("rules", "limits", code, name)
            if name not in defaults:
                expected = (
                    f"a limit of {code}: {names_of(list(defaults))}" if defaults else f"no limit: {code} has none"
                )
                yield Fault(place, expected, f"`{name}`", suggestion(name, defaults, f"testigo explain {code}"), "key")
            elif not _fits(value, defaults[name]):
                yield Fault(place, f"a value like the default, {defaults[name]}", describe(value), "write such a value")


def _waiver_faults(waive: Iterable[str], known: Mapping[str, Rule]) -> Iterator[Fault]:
    for code in waive:
        if code not in known:
            yield _unknown(("waive", code), code, known)
        elif known[code].severity != "stop":
            yield Fault(
                ("waive", code),
                "a rule that stops a campaign",
                f"{code}, which only says `{known[code].severity}`",
                "remove the waiver: nothing waits for it",
                "key",
            )


def _unknown(place: tuple[str, ...], code: str, known: Mapping[str, Rule]) -> Fault:
    action = suggestion(code, known, "`testigo explain` lists the rules")
    return Fault(place, "the code of a rule", f"`{code}`, which no rule has", action, "key")


def _fits(value: Any, default: Any) -> bool:
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(default, bool) and isinstance(value, bool)
    if isinstance(default, int | float):
        return isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
    return (
        default is None or isinstance(value, type(default)) or (isinstance(default, tuple) and isinstance(value, list))
    )
