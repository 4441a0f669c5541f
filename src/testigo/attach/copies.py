"""Evaluation rows that training rows repeat, among the rows that were looked at."""

from __future__ import annotations

from typing import Any

from testigo.attach.bench import Bench
from testigo.corpus.duplicates import normalised
from testigo.corpus.searching import Limits, alike

Ids = tuple[tuple[str, str], ...]
_WITHOUT_SIGNATURES = Limits(near=None)  # overlaps and added words are found without an engine in the user's process


def copies(bench: Bench) -> tuple[Ids | None, Ids | None]:
    """Pairs (training row, evaluation row) that say the same but for case and spaces, and those that nearly do."""
    training = [row for row in bench.train.rows if row.ids]
    evaluation = [row for split in bench.evaluation for row in split.rows if row.ids]
    if not training or not bench.evaluation:
        return None, None
    tokenizer = bench.trainer.processing_class
    texts = [_text(tokenizer, row.ids) for row in (*training, *evaluation)]
    first: dict[str, str] = {}
    for row, text in zip(training, texts, strict=False):
        first.setdefault(normalised(text), row.id)
    plain = [normalised(text) for text in texts[len(training) :]]
    exact = tuple((first[text], row.id) for row, text in zip(evaluation, plain, strict=True) if text in first)
    near = tuple(
        (training[one].id, evaluation[other - len(training)].id)
        for one, other in sorted(alike(texts, _WITHOUT_SIGNATURES))
        if one < len(training) <= other
    )
    return exact, near


def _text(tokenizer: Any, ids: tuple[int, ...]) -> str:
    """What the tokens say; without a tokenizer the tokens are words themselves."""
    decode = getattr(tokenizer, "decode", None)
    return str(decode(list(ids), skip_special_tokens=True)) if decode else " ".join(map(str, ids))
