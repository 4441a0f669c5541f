"""Limits and waivers name rules that there are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from testigo.campaign import check_rules, load, new_campaign
from testigo.errors import CampaignError
from testigo.rules import Finding, Passed, found, passed, rule


@dataclass(frozen=True)
class Curve:
    losses: tuple[float, ...]


@rule("T901", "spread", "stop", phase="watch")
def spread(evidence: Curve, *, spreads: float = 4.0, at_least: int = 3, strict: bool = False) -> Finding | Passed:
    """Losses stay within their spread.

    Why it matters: for a test.

    What to do: nothing.

    Source: none.
    """
    return found("far") if spreads > 9 else passed("near")


@rule("T902", "word", "note", phase="watch")
def word(evidence: Curve) -> Finding | Passed:
    """Nothing is said.

    Why it matters: for a test.

    What to do: nothing.

    Source: none.
    """
    return passed("nothing")


RULES = (spread, word)


def problems(tmp_path: Path, more: str) -> list[str]:
    path = new_campaign(tmp_path)
    path.write_text(path.read_text() + more)
    campaign = load(path)
    with pytest.raises(CampaignError) as caught:
        check_rules(campaign, RULES)
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("rules: {T909: {spreads: 6}}", "which no rule has"),
        ("rules: {T901: {spraeds: 6}}", "did you mean `spreads`?"),
        ("rules: {T901: {spreads: many}}", "a value like the default, 4.0"),
        ("rules: {T901: {spreads: true}}", "a value like the default, 4.0"),
        ("rules: {T901: {strict: 1}}", "a value like the default, False"),
        ("rules: [{T902: {spreads: 6}}]", "T902 has none"),
        ("waive: {T801: it does no harm}", "did you mean `T901`?"),
        ("waive: {T902: it does no harm}", "only says `note`"),
    ],
)
def test_a_limit_or_waiver_that_would_change_nothing_is_named_with_its_line(
    tmp_path: Path, more: str, words: str
) -> None:
    told = problems(tmp_path, more)
    assert len(told) == 1
    assert words in told[0]
    assert f" | {more}\n" in told[0]


def test_all_of_them_are_named_at_once(tmp_path: Path) -> None:
    assert (
        len(problems(tmp_path, "rules: {T909: {a: 1}, T901: {b: 2, spreads: x}}\nwaive: {D999: it does no harm}")) == 4
    )


@pytest.mark.parametrize(
    "more",
    [
        "",
        "rules: {T901: {spreads: 6, at_least: 2, strict: true}}\nwaive: {T901: it does no harm}",
        "rules: [{T901: {spreads: 6.5}}]",
    ],
)
def test_right_limits_and_waivers_pass(tmp_path: Path, more: str) -> None:
    path = new_campaign(tmp_path)
    path.write_text(path.read_text() + more)
    check_rules(load(path), RULES)
