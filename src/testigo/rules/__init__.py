"""What a rule and a finding are. No concrete rule lives here.

A rule is a pure function from one evidence record to what it observed::

    @rule("E102", "turn-end-not-learned", "stop", phase="data", requires=("E101",))
    def turn_end_is_learned(evidence: EncodingEvidence) -> Finding | Passed:
        '''The turn's end must be among the supervised tokens.

        Why it matters: a model that never learned to stop writes until the limit.

        What to do: set ...

        Source: ...
        '''
        if evidence.turn_end_not_learned:
            return found("12 of 420 rows end without ...", rows=evidence.turn_end_not_learned)
        return passed("the turn's end is supervised in all 420 rows")

The docstring is what ``testigo explain E102``, the page, the report and the reference pages print.
"""

from __future__ import annotations

from testigo.rules.judge import Verdict, by_reason, judge
from testigo.rules.loading import collect, load_user_rules
from testigo.rules.rule import (
    DOES_NOT_APPLY,
    CannotCheck,
    Finding,
    NotChecked,
    Passed,
    Rule,
    Severity,
    found,
    passed,
    rule,
)

__all__ = [
    "DOES_NOT_APPLY",
    "CannotCheck",
    "Finding",
    "NotChecked",
    "Passed",
    "Rule",
    "Severity",
    "Verdict",
    "by_reason",
    "collect",
    "found",
    "judge",
    "load_user_rules",
    "passed",
    "rule",
]
