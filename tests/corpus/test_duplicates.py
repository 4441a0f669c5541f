from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testigo.corpus.duplicates import find_copies, normalised
from testigo.corpus.near import near_texts
from testigo.corpus.row import Part, PlacedRow, Row
from testigo.corpus.texts import Texts

SENTENCE = "the quick brown fox jumps over a lazy dog while seven small owls watch from an old oak near our house"
WORDS = SENTENCE.split()


def placed(*rows: tuple[str, Any], parts: tuple[Part, ...] = ()) -> list[PlacedRow]:
    whole = parts or ("source",) * len(rows)
    return [
        PlacedRow(Row(str(n), str(n), "", {"text": text, "target": target}, ""), f"f:{n}", part)
        for n, ((text, target), part) in enumerate(zip(rows, whole, strict=True))
    ]


def near_pairs(texts: list[str], similarity: float) -> tuple[tuple[int, int, float], ...]:
    """Pairs of places, each later copy of a text with the first alone."""
    distinct = Texts.of(texts)
    copies = [(places[0], place, 1.0) for places in distinct.rows for place in places[1:]]
    found = near_texts(distinct, similarity)
    return tuple(sorted(copies + [(distinct.rows[a][0], distinct.rows[b][0], s) for (a, b), s in found.items()]))


@pytest.mark.parametrize("copy", ["send 5 boxes", "  SEND   5 boxes!! ", "Send (5 boxes)", "Ｓｅｎｄ 5 boxes"])
def test_case_spaces_punctuation_and_width_do_not_hide_a_copy(copy: str) -> None:
    rows = placed(("Send 5 boxes.", {"n": 5, "u": "Box"}), (copy, {"u": "box ", "n": 5}))
    assert find_copies(rows, "text", "target").exact == ((0, 1),)


def test_numbers_keep_their_signs() -> None:
    assert len({normalised(text) for text in ("-5", "5", "2.5", "2 5", "25", "10:30")}) == 6
    assert normalised("It costs 5.") == normalised("it costs 5")


def test_letters_of_any_script_stay_apart() -> None:
    assert normalised("कि") != normalised("का")
    assert normalised("?") != normalised("!")


@given(st.text())
def test_normalising_twice_changes_nothing_more(text: str) -> None:
    once = normalised(text)
    assert normalised(once.upper()) == normalised(text.upper())
    assert normalised(once) == once


def test_the_same_input_with_another_target_is_a_conflict_and_no_copy() -> None:
    copies = find_copies(placed(("a b", {"n": 5}), ("A b.", {"n": -5}), ("c", {"n": 5})), "text", "target")
    assert copies.exact == ()
    assert copies.conflicts == ((0, 1),)


def test_the_copy_in_the_test_file_is_the_one_that_stays() -> None:
    rows = placed(("a", "x"), ("a", "x"), ("a", "x"), parts=("source", "validation", "test"))
    assert find_copies(rows, "text", "target").exact == ((2, 1), (2, 0))


def test_one_changed_word_of_many_is_near_and_other_texts_are_not() -> None:
    text = " ".join(WORDS * 3)
    near = text.replace("lazy", "tired", 1)
    far = " ".join(reversed(WORDS * 3))
    ((one, other, similarity),) = near_pairs([text, far, near], 0.7)
    assert (one, other) == (0, 2)
    assert 0.7 <= similarity < 1


def test_the_similarity_is_the_exact_jaccard() -> None:
    # 60 words: 56 shingles of five words each; one word more at the end adds one shingle: 56 / 57
    words = [f"w{n}" for n in range(61)]
    assert near_pairs([" ".join(words[:60]), " ".join(words)], 0.9) == ((0, 1, round(56 / 57, 6)),)


def test_short_texts_are_compared_by_characters() -> None:
    assert near_pairs(["ship five boxes", "ship five boxez", "call me"], 0.8)[0][:2] == (0, 1)
    assert near_pairs(["a", "b", ""], 0.8) == ()


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=30), st.lists(st.sampled_from(WORDS), max_size=30))
def test_a_text_is_always_near_its_copy(words: list[str], others: list[str]) -> None:
    text = " ".join(words)
    assert (0, 2, 1.0) in near_pairs([text, " ".join(others), f"{text.upper()}!"], 1.0)


@given(st.permutations(range(6)))
def test_near_pairs_do_not_depend_on_the_order(order: list[int]) -> None:
    texts = [" ".join(WORDS[n : n + 12]) for n in (0, 1, 2, 6, 7, 8)]
    plain = {frozenset((a, b)) for a, b, _ in near_pairs(texts, 0.6)}
    mixed = {frozenset((order[a], order[b])) for a, b, _ in near_pairs([texts[n] for n in order], 0.6)}
    assert plain == mixed
    assert frozenset((0, 1)) in plain
    assert frozenset((2, 3)) not in plain


def test_many_copies_of_a_text_are_one_distinct_text() -> None:
    assert Texts.of(["a b c", "d", "A  b c!", "a b c"]).rows == ((0, 2, 3), (1,))
