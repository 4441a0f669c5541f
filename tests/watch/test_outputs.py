"""Outputs that loop or are all the same are found; plain and repetitive but finished ones are not."""

from __future__ import annotations

from typing import Any

import pytest

from testigo.rules import CannotCheck, Finding, Passed, judge
from testigo.watch import Outputs, all_rules

RULES = {rule.code: rule for rule in all_rules() if rule.evidence is Outputs}
LOOP = "The order is " + "three chairs and " * 12


def outputs(texts: list[str], stop: str = "end", **more: Any) -> Outputs:
    return Outputs.from_lines({"row": f"r{at}", "output": text, "stop": stop} | more for at, text in enumerate(texts))


CASES = {
    "O101": (
        outputs([LOOP], "length"),
        outputs([f'{{"item": "chair", "n": {at}}}' for at in range(9)]),
        outputs(["ha ha ha ha ha ha ha ha ha ha"], "end"),
    ),
    "O102": (outputs(["{}"] * 8), outputs([str(at) for at in range(8)]), outputs(["yes"] * 7 + ["no"])),
}


def test_every_rule_over_outputs_has_its_cases() -> None:
    assert set(CASES) == set(RULES)


@pytest.mark.parametrize("code", CASES)
def test_the_rule_fires_passes_and_knows_the_healthy_twin(code: str) -> None:
    sick, healthy, twin = CASES[code]

    assert isinstance(RULES[code](sick), Finding)
    assert isinstance(RULES[code](healthy), Passed)
    assert isinstance(RULES[code](twin), Passed)


@pytest.mark.parametrize("code", CASES)
def test_no_outputs_cannot_be_checked(code: str) -> None:
    with pytest.raises(CannotCheck):
        RULES[code](outputs([]))


def test_a_loop_of_token_ids_is_found_and_the_rows_are_named() -> None:
    lines = [{"row": "x", "output": "…", "token_ids": [5, 9, *[7, 8, 3] * 10, 7], "stop": "length"}]

    (finding,) = judge([RULES["O101"]], [Outputs.from_lines(lines)]).findings

    assert finding.rows == ("x",)


def test_a_long_answer_cut_at_the_limit_that_does_not_repeat_is_no_loop() -> None:
    lines = [{"row": "x", "output": "…", "token_ids": list(range(64)), "stop": "length"}]

    assert isinstance(RULES["O101"](Outputs.from_lines(lines)), Passed)


def test_one_looping_output_among_a_hundred_is_let_pass() -> None:
    many = [{"row": str(at), "output": str(at), "stop": "end"} for at in range(99)]
    many.append({"row": "loop", "output": LOOP, "stop": "length"})

    assert isinstance(RULES["O101"](Outputs.from_lines(many)), Passed)
