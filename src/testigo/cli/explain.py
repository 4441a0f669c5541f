"""`testigo explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from testigo.cli.output import JsonFlag, ending, print_json, show
from testigo.errors import TestigoError

if TYPE_CHECKING:
    from testigo.rules import Rule


def explain(
    code: Annotated[
        str | None, typer.Argument(metavar="CODE", help="The code or the name of a rule; left out: all rules.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Say what a rule looks at, why it matters, what to do about it, and where its limits come from.

    Example: testigo explain T101
    """
    rules = known_rules()
    if code is None:
        if as_json:
            print_json({"rules": [_document(rule) for rule in rules]})
        else:
            _show_list(rules)
        ending(next_command="testigo explain CODE")
        return
    rule = _find(code, rules)
    if as_json:
        print_json(_document(rule))
    else:
        show(_text(rule))
    ending(next_command=f"testigo {'run' if rule.phase == 'training' else 'pilot'} CAMPAIGN")


def _show_list(rules: tuple[Rule, ...]) -> None:
    """By phase, each rule with what holds when it passes: in 80 columns a table would cut its names."""
    for phase in dict.fromkeys(rule.phase for rule in rules):
        show(f"\n{phase}", "bold")
        for rule in rules:
            if rule.phase == phase:
                show(f"  {rule.code} {rule.severity:<5}{rule.name}: {rule.summary}")


def known_rules() -> tuple[Rule, ...]:
    """Every rule of Testigo and of installed packages, sorted by code."""
    from testigo.rules import collect, load_user_rules

    ours = collect("testigo.gates", "testigo.watch")
    return tuple(sorted([*ours, *load_user_rules(())], key=lambda rule: rule.code))


def _find(code: str, rules: tuple[Rule, ...]) -> Rule:
    from testigo.campaign.wording import suggestion

    for rule in rules:
        if code.upper() == rule.code or code.lower() == rule.name:
            return rule
    names = [name for rule in rules for name in (rule.code, rule.name)]
    raise TestigoError(
        expected="the code or the name of a rule",
        found=f"`{code}`",
        where="testigo explain",
        action=suggestion(code.upper() if len(code) < 6 else code, names, "`testigo explain` lists all rules"),
    )


def _document(rule: Rule) -> dict[str, Any]:
    return {
        "code": rule.code,
        "name": rule.name,
        "severity": rule.severity,
        "phase": rule.phase,
        "requires": list(rule.requires),
        "limits": dict(rule.limits),
        "summary": rule.summary,
        "why": rule.why,
        "remedy": rule.remedy,
        "source": rule.source,
    }


def _text(rule: Rule) -> str:
    limits = ", ".join(f"{name}: {value}" for name, value in rule.limits.items())
    lines = [
        f"{rule.code} {rule.name} ({rule.severity}, phase {rule.phase})",
        rule.summary,
        "",
        f"Why it matters: {rule.why}",
        f"What to do: {rule.remedy}",
        f"Source: {rule.source}",
    ]
    if limits:
        lines.append(f"Limits, to be changed in the campaign: rules: {{{rule.code}: {{{limits}}}}}")
    if rule.requires:
        lines.append(f"Judged only where these hold: {', '.join(rule.requires)}")
    stops = rule.severity == "stop"
    waiving = "To go on in spite of it" if stops else "It stops nothing. To answer it in the report"
    lines.append(f"{waiving}: waive: {{{rule.code}: the reason in words}}")
    return "\n".join(lines)
