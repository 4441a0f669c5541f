"""Classes: their names, their order, and what is said of a row."""

from __future__ import annotations

import pytest

from testigo.tasks import Classification, ImageClassification
from testigo.tasks.classes import class_name, in_order

TICKETS = Classification("text", "queue", ("billing", "other"))


@pytest.mark.parametrize(
    ("value", "name"),
    [("a", "a"), (3, "3"), (0, "0"), (True, "true"), (1.5, None), (None, None), ("  ", None), (["a"], None)],
)
def test_a_class_is_named_by_text_whole_number_or_truth_value(value: object, name: str | None) -> None:
    assert class_name(value) == name


def test_numbers_are_ordered_by_value_and_names_by_letter() -> None:
    assert in_order(["10", "9", "9", "-1"]) == ("-1", "9", "10")
    assert in_order(["b", "10", "a"]) == ("10", "a", "b")


def test_a_row_of_another_class_is_named_and_a_good_one_has_no_problem() -> None:
    assert TICKETS.problems({"text": "My bill is wrong", "queue": "billing"}) == []
    (told,) = TICKETS.problems({"text": "My bill is wrong", "queue": "sales"})
    assert "'sales' is none of `task.labels`: billing, other" in told
    assert len(TICKETS.problems({})) == 2


def test_a_rows_class_is_its_place_in_the_labels_and_the_score_compares_names() -> None:
    row = {"text": "My bill is wrong", "queue": "other"}
    assert TICKETS.label_of(row) == 1
    assert TICKETS.score(row, "other") == {"accuracy": 1.0}
    assert TICKETS.score(row, "billing") == {"accuracy": 0.0}


@pytest.mark.parametrize("image", [{"image": "a.png", "sha256": "0"}, {"bytes": "iVBO", "path": "a.png"}, "a.png"])
def test_an_image_is_an_object_or_a_path(image: object) -> None:
    task = ImageClassification("image", "digit", ("0", "1"))
    assert task.problems({"image": image, "digit": 1}) == []
    assert task.messages({"image": image, "digit": 1})[0]["content"]
    assert "must be an image" in task.problems({"image": 3, "digit": 1})[0]
    assert "is missing" in task.problems({"digit": 1})[0]


WRITTEN = Classification("text", "queue", ("billing", "Account access", "C++", "other."), by="text")


@pytest.mark.parametrize(
    ("output", "name"),
    [
        ("billing", "billing"),
        (" Billing.\n", "billing"),
        ('"BILLING"', "billing"),
        ("**billing**", "billing"),
        ("`Account  access`", "Account access"),
        ("ａｃｃｏｕｎｔ access", "Account access"),  # full-width letters, NFKC
        ("c++", "C++"),
        ("other", "other."),
        ("other.", "other."),
        ("The class is billing", None),
        ("billing, other", None),
        ("bill", None),
        ("", None),
        ("...", None),
    ],
)
def test_a_written_answer_is_the_class_whose_name_it_is(output: str, name: str | None) -> None:
    row = {"text": "My bill is wrong", "queue": "billing"}
    assert WRITTEN.class_of(output, row) == name
    assert WRITTEN.score(row, output) == {"accuracy": float(name == "billing")}


def test_names_that_differ_by_case_alone_have_to_be_written_exactly() -> None:
    elements = Classification("text", "symbol", ("Co", "CO", "Fe"), by="text")
    row = {"text": "cobalt", "symbol": "Co"}
    assert elements.class_of("Co", row) == "Co"
    assert elements.class_of("CO", row) == "CO"
    assert elements.class_of("co", row) is None
    assert elements.class_of("fe", row) == "Fe"
