"""What rows share is laid once, as a tree; rows meet in packs under a budget."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import made_row
from torch.nn.attention.flex_attention import flex_attention
from torch.nn.functional import scaled_dot_product_attention

from testigo.encoding import EncodedRow, bins, n_laid, pack
from testigo.encoding.tree import stretches
from testigo.model.attention import block_mask

HEAD = tuple(range(20, 40))
SCHEMA = tuple(range(100, 112))
DOCUMENT = tuple(range(120, 140))
NESTED = [
    made_row("a", (*HEAD, *SCHEMA, *DOCUMENT, 1), (60,)),
    made_row("b", (*HEAD, 2), (61, 62)),
    made_row("c", (*HEAD, *SCHEMA, *DOCUMENT, 3, 4), (63,)),
    made_row("d", (*HEAD, *SCHEMA, 5), (64,)),
]


def test_nested_prefixes_are_laid_once_each() -> None:
    laid = stretches(NESTED)
    assert [(one.number, one.n_tokens) for one in laid] == [(0, 20), (5, 12), (6, 20), (1, 2), (3, 3), (4, 2), (2, 3)]
    assert n_laid(NESTED) == 20 + 12 + 20 + 2 + 3 + 2 + 3
    own = pack(NESTED)
    assert own.n_prefix == 20
    assert own.segment[0].tolist() == [0] * 20 + [5] * 12 + [6] * 20 + [1] * 2 + [3] * 3 + [4] * 2 + [2] * 3
    assert own.position_ids[0, -3:].tolist() == [20, 21, 22]


def test_a_few_tokens_that_only_some_rows_share_are_chance() -> None:
    rows = [
        made_row("a", (*HEAD, 1, 2, 3, 4), (60,)),
        made_row("b", (*HEAD, 1, 2, 3, 5), (60,)),
        made_row("c", HEAD, (60,)),
    ]
    assert [one.number for one in stretches(rows)] == [0, 1, 2, 3]


tree_rows = st.lists(
    st.tuples(st.lists(st.sampled_from([HEAD, SCHEMA, DOCUMENT, (1,), (2,)]), max_size=4), st.integers(1, 3)),
    min_size=1,
    max_size=9,
).map(
    lambda made: [
        made_row(f"r{k}", (9, *(token for part in parts for token in part)), tuple(range(50, 50 + n)))
        for k, (parts, n) in enumerate(made)
    ]
)


@settings(deadline=None)
@given(rows=tree_rows, before=st.integers(0, 1))
def test_each_place_sees_the_row_that_leads_to_it_and_nothing_else(rows: list[EncodedRow], before: int) -> None:
    before = min(before, min(row.n_prompt for row in rows) - 1)
    own = pack(rows, before=before)
    mask = own.attention_mask[0, 0]
    ids = torch.cat([torch.tensor(rows[0].ids[:before], dtype=torch.long), own.input_ids[0]])
    nth: dict[int, int] = {}
    for place, owner in zip(own.places.tolist(), own.owner.tolist(), strict=True):
        row, at = rows[owner], rows[owner].n_prompt + nth.get(owner, 0)
        nth[owner] = nth.get(owner, 0) + 1
        assert ids[mask[place]].tolist() == list(row.ids[:at])
        assert own.input_ids[0, place + 1] == own.targets[sum(r.n_supervised for r in rows[:owner]) + nth[owner] - 1]
    assert n_laid(rows, before=before) == own.n_tokens


@settings(deadline=None)
@given(rows=tree_rows, most=st.integers(1, 120), processes=st.integers(1, 3))
def test_bins_hold_every_row_once_and_keep_the_budget(rows: list[EncodedRow], most: int, processes: int) -> None:
    packs = bins(rows, most_tokens=most, multiple_of=processes)
    assert sorted(k for own in packs for k in own) == list(range(len(rows)))
    sizes = [n_laid([rows[k] for k in own]) for own in packs]
    assert all(size <= most or len(own) == 1 for size, own in zip(sizes, packs, strict=True))
    assert sizes == sorted(sizes)


def one_by_one(rows: list[EncodedRow], most: int) -> list[list[int]]:
    """Best-fit decreasing as Johnson tells it: each row, the longest first, into the pack where it adds least."""
    packs: list[list[int]] = []
    for row in sorted(range(len(rows)), key=lambda k: (-rows[k].n_tokens, k)):
        sizes = [n_laid([rows[k] for k in own]) for own in packs]
        fits = []
        for k, own in enumerate(packs):
            size = n_laid([rows[other] for other in (*own, row)])
            if sizes[k] < most and size <= most:
                fits.append((min(size - sizes[k], rows[row].n_tokens), -size, k))
        packs = packs if fits else [*packs, []]
        packs[min(fits)[2] if fits else -1].append(row)
    return packs


@settings(deadline=None)
@given(rows=tree_rows, most=st.integers(1, 200))
def test_rows_that_are_put_in_at_once_lie_as_if_each_had_been_put_in_alone(rows: list[EncodedRow], most: int) -> None:
    assert sorted(bins(rows, most_tokens=most)) == sorted(one_by_one(rows, most))


def test_rows_with_a_document_in_common_meet() -> None:
    rows = [
        made_row(f"{name}{k}", (name * 30 + k, *range(name * 40, name * 40 + 40), k), (60,))
        for name in (2, 4)
        for k in (0, 0, 0)
    ]
    packs = bins(rows, most_tokens=60)
    assert sorted(map(sorted, packs)) == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("before", [0, 7])
def test_blocks_for_flex_attention_are_the_same_mask(before: int) -> None:
    own = pack(NESTED, before=before)
    blocks = block_mask(own)
    n, m = own.n_tokens, own.n_tokens + before
    q, k = torch.meshgrid(torch.arange(n), torch.arange(m), indexing="ij")
    seen = blocks.mask_mod(torch.tensor(0), torch.tensor(0), q, k)
    assert torch.equal(seen, own.attention_mask[0, 0])


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile:UserWarning")
@pytest.mark.parametrize("before", [0, 7])
def test_flex_attention_over_the_blocks_of_a_pack_gives_what_fused_attention_gives(before: int) -> None:
    """Forwards: torch 2.13 has no backward pass of it on a CPU."""
    own = pack(NESTED, before=before)
    torch.manual_seed(0)
    query = torch.randn(1, 2, own.n_tokens, 16)
    key, value = torch.randn(2, 1, 2, before + own.n_tokens, 16)
    expected = scaled_dot_product_attention(query, key, value, attn_mask=own.attention_mask)
    made = flex_attention(query, key, value, block_mask=block_mask(own))
    assert torch.allclose(made, expected, atol=1e-6)
