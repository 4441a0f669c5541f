"""Every rule that there is: the gates', the watch's and the user's; and the words that explain one."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path

from testigo.errors import TestigoError
from testigo.rules import Rule, collect, load_user_rules

_LETTERS = {
    "D": "data",
    "E": "encoding",
    "F": "forward and loss",
    "B": "backward",
    "U": "update",
    "V": "validation",
    "X": "export",
    "R": "resume",
    "M": "machine and memory",
    "T": "training curve",
    "O": "outputs",
}
_MEANING = {
    "stop": "stops the campaign until it is mended or waived with a reason",
    "warn": "is shown, and the campaign goes on",
    "note": "is only told",
}


def all_rules(files: tuple[Path, ...] = ()) -> tuple[Rule, ...]:
    """Every rule of the gates and the watch, of these files and of installed packages, sorted by code.

    Raises
    ------
    CampaignError
        When a file is missing, does not import or holds no rule.
    """
    own = collect("testigo.gates", "testigo.watch")
    return _together(own, load_user_rules(files))


def gate_rules(files: tuple[Path, ...] = ()) -> tuple[Rule, ...]:
    """The rules that judge the pilot's evidence: all but those over evidence of the watch."""
    watched = {rule.evidence for rule in collect("testigo.watch")}
    return tuple(rule for rule in all_rules(files) if rule.evidence not in watched)


def explain(code: str, files: tuple[Path, ...] = ()) -> Rule:
    """The rule with this code; its summary, why, remedy, source and limits are its explanation.

    Raises
    ------
    TestigoError
        When no rule has this code.
    """
    rules = {rule.code: rule for rule in all_rules(files)}
    rule = rules.get(code.upper())
    if rule is None:
        near = difflib.get_close_matches(code.upper(), rules, n=3, cutoff=0.5)
        raise TestigoError(
            expected="the code of a rule, such as E107 or T104",
            found=code,
            where="explain",
            action=f"did you mean {', '.join(near)}?" if near else "see docs/rules/index.md for every code",
        )
    return rule


def promise_of(code: str) -> str:
    """What the rule with this code promises, in its first sentence; "" for a rule of a user's own file."""
    return next((rule.summary for rule in all_rules() if rule.code == code), "")


def rule_page(rule: Rule) -> str:
    """The reference page of one rule, in Markdown."""
    lines = [
        f"# {rule.code} · {rule.name}",
        "",
        rule.summary,
        "",
        f"- Severity: **{rule.severity}**: it {_MEANING[rule.severity]}.",
        f"- Phase: {rule.phase}; judged on `{rule.evidence.__name__}`.",
    ]
    if rule.requires:
        needed = ", ".join(f"[{code}]({code}.md)" for code in rule.requires)
        lines.append(f"- Judged only where {needed} passed.")
    if rule.limits:
        limits = ", ".join(f"{name}: {value:g}" for name, value in rule.limits.items())
        lines.append(f"- Limits: `{limits}`. In a campaign: `rules: {{{rule.code}: {{{limits.split(', ')[0]}}}}}`.")
    for title, text in (("Why it matters", rule.why), ("What to do", rule.remedy), ("Source", rule.source)):
        lines += ["", f"## {title}", "", text[:1].upper() + text[1:]]
    return "\n".join(lines) + "\n"


def rule_pages() -> Mapping[str, str]:
    """The reference pages of our own rules by file name, the index included."""
    rules = collect("testigo.gates", "testigo.watch")
    index = [
        "# Rules",
        "",
        "A code is permanent. `testigo explain E107` prints a page. In a campaign, `waive: {E107: why}` waives a rule",
        "with a written reason, and `rules: {T104: {spreads: 8}}` changes its limits.",
    ]
    for letter, title in _LETTERS.items():
        own = [rule for rule in rules if rule.code.startswith(letter)]
        if own:
            index += ["", f"## {letter}: {title}", "", "| code | name | severity | what holds |", "|---|---|---|---|"]
            index += [f"| [{r.code}]({r.code}.md) | {r.name} | {r.severity} | {r.summary} |" for r in own]
    return {"index.md": "\n".join(index) + "\n", **{f"{rule.code}.md": rule_page(rule) for rule in rules}}


def _together(own: tuple[Rule, ...], users: tuple[Rule, ...]) -> tuple[Rule, ...]:
    taken = {rule.code for rule in own}
    clash = [rule.code for rule in users if rule.code in taken]
    if clash:
        raise TestigoError(
            expected="codes of your own",
            found=f"{', '.join(clash)}, which Testigo uses",
            where="rules:",
            action="give your rules other codes, for instance with the letter Z",
        )
    return tuple(sorted((*own, *users), key=lambda rule: rule.code))
