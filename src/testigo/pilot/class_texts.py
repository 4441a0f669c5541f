"""What became of a text on its way to a class head: marks that it brought in, letters that it lost, its mask."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from testigo.encoding import ClassEncoder, LabelledRow
from testigo.pilot.seen import difference

N_ROWS = 4
_FRAMING = ("bos_token_id", "eos_token_id", "pad_token_id", "cls_token_id", "sep_token_id")


def unknown_id(tokenizer: Any) -> int | None:
    """The token for what the tokenizer does not know; None where that token frames texts too, as GPT-2's does."""
    unknown = tokenizer.unk_token_id
    return None if unknown is None or unknown in _framing(tokenizer) else int(unknown)


def marks(tokenizer: Any, rows: Sequence[LabelledRow]) -> tuple[tuple[str, str], ...]:
    """(row, token) for texts that hold more of the tokenizer's frame than any other text does."""
    framing = _framing(tokenizer)
    usual = Counter(token for token in tokenizer("x")["input_ids"] if token in framing)
    brought = []
    for row in rows:
        more = Counter(token for token in row.ids if token in framing) - usual
        if more:
            brought.append((row.id, str(tokenizer.decode([min(more)]))))
    return tuple(brought)


def changed(tokenizer: Any, rows: Sequence[LabelledRow], texts: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """(row, "before became after") for texts that the tokenizer rewrites; unknown letters are told elsewhere.

    A vocabulary without case is often one without accents too: the base never saw any, so that they go is its design.
    """
    unknown, drops_accents = tokenizer.unk_token_id, _drops_accents(tokenizer)
    framing = _framing(tokenizer)
    found = []
    for row in rows:
        if unknown in row.ids or framing & set(row.ids[1:-1]):
            continue
        said = tokenizer.decode(
            [token for token in row.ids if token not in framing], clean_up_tokenization_spaces=False
        )
        text = _without_accents(texts[row.id]) if drops_accents else texts[row.id]
        if what := difference(text, str(said)):
            found.append((row.id, what))
    return tuple(found)


def _drops_accents(tokenizer: Any) -> bool:
    """Whether two texts that differ in case and accents alone are one to it."""
    upper, plain = (tokenizer(text, add_special_tokens=False)["input_ids"] for text in ("Éàü", "eau"))
    return bool(upper == plain)


def _without_accents(text: str) -> str:
    parts = unicodedata.normalize("NFD", text)
    return unicodedata.normalize("NFC", "".join(sign for sign in parts if unicodedata.category(sign) != "Mn"))


def wrongly_attended(encoder: ClassEncoder, rows: Sequence[LabelledRow]) -> tuple[str, ...]:
    """Short and long rows of one batch whose attention mask hides a token of theirs, or shows padding."""
    ordered = sorted(rows, key=lambda row: (row.n_tokens, row.id))
    chosen = [*ordered[:N_ROWS], *ordered[N_ROWS:][-1:]]
    if not chosen:
        return ()
    mask = encoder.lay_out(chosen).inputs["attention_mask"]  # (B, T)
    places = torch.arange(mask.shape[1])
    return tuple(
        row.id for row, seen in zip(chosen, mask, strict=True) if not torch.equal(seen.bool(), places < len(row.ids))
    )


def _framing(tokenizer: Any) -> set[int]:
    return {int(token) for name in _FRAMING if (token := getattr(tokenizer, name, None)) is not None}
