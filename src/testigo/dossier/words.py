"""Words and line breaks for what the data carries."""

from __future__ import annotations

import re
from functools import cache

from markupsafe import Markup, escape

from testigo.rules import Rule, collect

_BREAK = re.compile(r"(?<=[,:;{}\[\]/])")


@cache
def _rules() -> dict[str, Rule]:
    return {rule.code: rule for rule in collect("testigo.gates", "testigo.watch")}


def explained(code: str) -> str:
    """What a rule looks at, in one line; empty for a user's own rule."""
    rule = _rules().get(code)
    return rule.summary if rule else ""


def rule_of(code: str) -> Rule | None:
    """The rule of a code; None for a user's own."""
    return _rules().get(code)


def breakable(text: str) -> Markup:
    """The text, escaped, with places where a long run of signs may break: JSON without spaces has none of its own."""
    return Markup("<wbr>").join(escape(piece) for piece in _BREAK.split(text))
