"""What a row sees of the batch that it lies in, read off the batch's own tensors."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from testigo.encoding import EncodedRow, pack, pad

N_ROWS = 4
"""Short rows that are laid together; what holds for their places holds for those of any rows."""


def wrongly_attended(rows: Sequence[EncodedRow], pad_id: int) -> tuple[str, ...]:
    """Rows of a padded batch whose attention mask hides a token of theirs, or shows padding."""
    chosen = _short(rows)
    if not chosen:
        return ()
    mask = pad(chosen, pad_id=pad_id).attention_mask  # (B, T)
    places = torch.arange(mask.shape[1])
    return tuple(
        row.id for row, seen in zip(chosen, mask, strict=True) if not torch.equal(seen.bool(), places < row.n_tokens)
    )


def mixed_segments(rows: Sequence[EncodedRow]) -> tuple[str, ...]:
    """Rows of a pack that see more or less than themselves, or whose positions do not count from their own start."""
    chosen = _short(rows)
    if not chosen:
        return ()
    batch = pack(chosen)
    mask, ids, positions = batch.attention_mask[0, 0], batch.input_ids[0], batch.position_ids[0]
    bad: dict[str, None] = {}
    nth: dict[int, int] = {}
    for place, owner in zip(batch.places.tolist(), batch.owner.tolist(), strict=True):
        row = chosen[owner]
        counted = [at for begin, end in row.supervised_spans for at in range(begin, end)]
        own = counted[nth.get(owner, 0)]  # the place in the row that is predicted here
        nth[owner] = nth.get(owner, 0) + 1
        seen = mask[place]
        if ids[seen].tolist() != list(row.ids[:own]) or positions[seen].tolist() != list(range(own)):
            bad[row.id] = None
    return tuple(bad)


def _short(rows: Sequence[EncodedRow]) -> list[EncodedRow]:
    return sorted(rows, key=lambda row: (row.n_tokens, row.id))[:N_ROWS]
