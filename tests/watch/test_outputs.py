"""Outputs that loop, repeat, are empty, never end, copy or forget are found; healthy twins of each are not."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from testigo.rules import CannotCheck, Finding, Passed, Rule, judge
from testigo.watch import Copies, Curve, Guarded, Outputs, Recall, Retention, all_rules, find_copies

RULES: dict[str, Rule] = {rule.code: rule for rule in all_rules() if rule.code.startswith("O")}
LOOP = "The order is " + "three chairs and " * 12
WORDS = [f"{a}{b}" for a in ("al", "be", "co", "du", "em") for b in ("an", "er", "il", "on", "us", "ta")]


def prose(seed: int, n: int = 60) -> str:
    return " ".join(random.Random(seed).choices(WORDS, k=n))


def outputs(texts: list[str], stop: str = "end", before: list[str] | None = None, **more: Any) -> Outputs:
    lines = [{"row": f"r{at}", "output": text, "stop": stop} | more for at, text in enumerate(texts)]
    earlier = [{"row": f"r{at}", "output": text, "stop": stop} for at, text in enumerate(before or [])]
    return Outputs.from_lines(lines, earlier)


REPETITIVE = "It was a very good day and all of us were glad. " * 8 + "So it ended."
LIST = "[" + ", ".join(f'{{"item": "chair", "number": {at}, "unit": "piece"}}' for at in range(20)) + "]"
TRAINING = [(f"t{at}", prose(at)) for at in range(40)]
FORM = "Dear customer, we thank you for your order of today and will send it as soon as all of it is here: "
COPY = "well then " + " ".join(TRAINING[7][1].split()[20:50])
FORMS = find_copies(
    {f"r{at}": FORM + WORDS[at] for at in range(9)}, {}, [(f"t{at}", FORM + WORDS[-at]) for at in range(20)]
)


def recalled(now: dict[str, float], others: float = 3.0) -> Recall:
    names = [f"v{at}" for at in range(16)]
    return Recall(
        train_before=dict.fromkeys(now, 5.0),
        train_now=now,
        other_before=dict.fromkeys(names, 5.0),
        other_now={name: others + 0.05 * at for at, name in enumerate(names)},
    )


def retained(rise: float, base: float = 3.0) -> Retention:
    before = {f"passage {at}": base + 0.1 * at for at in range(8)}
    return Retention(
        before, {name: loss + rise + 0.02 * (-1) ** k for k, (name, loss) in enumerate(before.items())}, 400
    )


def guarded(before: list[float], now: list[float]) -> Guarded:
    return Guarded("valid_json", 0.1, 20, tuple(f"r{at}" for at in range(len(now))), tuple(before), tuple(now))


PENS = [f'{{"item": "pens", "n": {at}}}' for at in range(9)]
CASES: dict[str, tuple[Any, Any, Any]] = {
    "O101": (outputs([LOOP], "length"), outputs(PENS), outputs(["ha ha ha ha ha ha ha ha ha ha"], "end")),
    "O102": (outputs(["{}"] * 8), outputs(PENS), outputs(["yes"] * 8, target="yes")),
    "O111": (outputs([REPETITIVE], target="A fine day."), outputs([prose(1)]), outputs([LIST], target=LIST[:-60])),
    "O112": (outputs(["", " "]), outputs(PENS), outputs(["", ""], target="")),
    "O113": (outputs([prose(1)], "length", target="ok"), outputs(PENS), outputs([prose(1), *PENS, *PENS, *PENS])),
    "O114": (
        find_copies({"r": COPY}, {"r": "Where is the chair?"}, TRAINING),
        find_copies({"r": prose(98)}, {"r": prose(99)}, TRAINING),
        FORMS,
    ),
    "O115": (
        recalled({"t1": 0.1, "t2": 3.1}),
        recalled({"t1": 3.0, "t2": 3.1}),
        recalled({"t1": 0.1, "t2": 0.1}, others=0.1),
    ),
    "O116": (retained(0.8), retained(0.05), retained(-0.4)),
    "O117": (
        guarded([1] * 8, [0] * 7 + [1]),
        guarded([1] * 8, [1] * 8),
        guarded([1, 1, 1, 0, 0, 1, 1, 1], [0, 0, 1, 1, 0, 1, 1, 1]),
    ),
}
NOTHING: dict[str, Any] = {
    "O114": Copies(0, 0, ()),
    "O115": Recall({}, {}, {}, {}),
    "O116": retained(9.0, base=5.9),
    "O117": guarded([1] * 5, [0] * 5),
}


def test_every_rule_over_outputs_has_its_cases() -> None:
    assert set(CASES) == set(RULES)


@pytest.mark.parametrize("code", CASES)
def test_the_rule_fires_passes_and_knows_the_healthy_twin(code: str) -> None:
    sick, healthy, twin = CASES[code]

    finding = RULES[code](sick)
    assert isinstance(finding, Finding)
    assert finding.remedy
    assert isinstance(RULES[code](healthy), Passed)
    assert isinstance(RULES[code](twin), Passed)


@pytest.mark.parametrize("code", CASES)
def test_where_there_is_nothing_to_look_at_it_cannot_be_checked(code: str) -> None:
    with pytest.raises(CannotCheck):
        RULES[code](NOTHING.get(code, outputs([])))


def test_no_rule_over_outputs_fires_on_plain_right_answers() -> None:
    lines = [{"row": f"r{at}", "output": text, "target": text, "stop": "end"} for at, text in enumerate(PENS)]

    assert judge(RULES.values(), [Outputs.from_lines(lines, lines)]).findings == ()


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


def test_what_the_base_already_does_is_not_blamed_on_the_training() -> None:
    for code, text, stop in (("O101", LOOP, "length"), ("O112", "", "end"), ("O113", prose(3), "length")):
        assert isinstance(RULES[code](outputs([text], stop, before=[text])), Passed), code
        assert isinstance(RULES[code](outputs([text], stop, before=["A chair."])), Finding) == (code != "O113"), code


def test_a_class_that_a_head_chose_is_neither_empty_nor_endless() -> None:
    lines = [{"row": str(at), "output": "", "stop": "class"} for at in range(9)]

    codes = {finding.code for finding in judge(RULES.values(), [Outputs.from_lines(lines)]).findings}

    assert codes == {"O102"}


def test_a_limit_that_is_too_low_is_told_from_an_end_that_was_not_learned() -> None:
    cut = RULES["O113"](outputs([prose(1)], "length", target=prose(1, 200)))
    endless = RULES["O113"](outputs([prose(1)], "length", target="ok"))
    unknown = RULES["O113"](outputs([prose(1)], "length"))

    assert isinstance(cut, Finding)
    assert isinstance(endless, Finding)
    assert isinstance(unknown, Finding)
    assert "max_new_tokens" in cut.remedy
    assert "Cause, tested" in cut.remedy
    assert "E107" in endless.remedy
    assert "Cause, tested" not in unknown.remedy


def test_a_copy_names_the_training_row_and_the_words() -> None:
    finding = RULES["O114"](CASES["O114"][0])

    assert isinstance(finding, Finding)
    assert "of t7" in finding.observed
    assert "30 words" in finding.observed
    assert " ".join(COPY.split()[2:6]) in finding.observed


def test_the_own_input_and_target_may_be_said_again() -> None:
    own = TRAINING[7][1]

    assert find_copies({"r": COPY}, {"r": own}, TRAINING).spans == ()


def test_a_span_is_found_whatever_its_case_and_signs() -> None:
    (span,) = find_copies({"r": COPY.upper().replace(" ", ", ")}, {}, TRAINING).spans

    assert (span.training_row, span.n_words) == ("t7", 30)


def test_a_base_that_was_not_finite_is_not_called_a_loss_of_knowledge() -> None:
    sick = retained(0.0)

    with pytest.raises(CannotCheck):
        RULES["O116"](replace(sick, before=dict.fromkeys(sick.before, float("nan"))))
    assert isinstance(RULES["O116"](replace(sick, now=dict.fromkeys(sick.now, float("nan")))), Finding)


def test_a_canary_is_named_first() -> None:
    finding = RULES["O115"](recalled({"plain": 3.0, "canary": 0.02, "half": 0.5}))

    assert isinstance(finding, Finding)
    assert finding.rows[0] == "canary"
    assert "5.00 before, 0.02 now" in finding.observed


def test_guards_come_from_the_lines_of_two_validations() -> None:
    before = [{"row": f"r{at}", "scores": {"valid_json": 1.0, "exact_match": 0.0}} for at in range(8)]
    now = [{"row": f"r{at}", "scores": {"valid_json": 0.0, "exact_match": 1.0}} for at in range(8)]

    (record,) = Guarded.of({"valid_json": 0.02}, before, now, update=40)
    finding = RULES["O117"](record)

    assert isinstance(finding, Finding)
    assert "valid_json 1.000 before, 0.000 now" in finding.observed
    assert len(finding.rows) == 8


def test_rules_over_outputs_are_no_rules_over_curves() -> None:
    assert all(rule.evidence is not Curve for rule in RULES.values())
