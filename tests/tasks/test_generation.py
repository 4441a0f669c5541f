from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testigo.tasks import Generation
from testigo.tasks.generation import token_f1

TASK = Generation("question", "answer", "Be short.")
ROW = {"question": "Who?", "answer": "The cat, naturally."}


def test_prompt_and_target_are_the_rows_own_text() -> None:
    assert TASK.messages(ROW) == [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Who?"}]
    assert TASK.target(ROW) == "The cat, naturally."


def test_exact_match_forgives_white_space_and_composition_only() -> None:
    row = {"answer": "caf\u00e9 noir"}
    assert TASK.score(row, " cafe\u0301\n noir ")["exact_match"] == 1
    assert TASK.score(row, "Caf\u00e9 noir")["exact_match"] == 0


def test_token_f1_is_squads() -> None:
    # gold: cat, naturally; output: cat, of, course -> one in common: 2*1 / (2 + 3)
    assert token_f1("The cat, naturally.", "a CAT of course!") == pytest.approx(2 / 5)
    assert token_f1("The", "a") == 1
    assert token_f1("cat", "the") == 0


@given(st.text(), st.text())
def test_scores_are_bounded_for_any_text(gold: str, output: str) -> None:
    scores = TASK.score({"answer": gold}, output)
    assert all(0 <= value <= 1 for value in scores.values())
    assert TASK.score({"answer": gold}, gold) == {"exact_match": 1, "token_f1": 1}


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"question": "x"}, "(target) is missing"),
        ({"question": "x", "answer": {}}, "must be text, and is an object"),
        ({"question": "x", "answer": "\n"}, "(target) is empty"),
        ({"answer": "y"}, "(input) is missing"),
    ],
)
def test_each_problem_of_a_row_is_told(row: dict[str, object], words: str) -> None:
    (problem,) = TASK.problems(row)
    assert words in problem
