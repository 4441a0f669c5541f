"""What is shown is what lies in the tensors: ids, positions, segments, what counts, and who sees whom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest
import torch

from testigo.encoding import Pack
from testigo.inspection.choosing import by_id, each_category
from testigo.inspection.seeing import see_pack, see_row
from testigo.inspection.seen import SeenPack, Segment, compared

if TYPE_CHECKING:
    from collections.abc import Callable

    from testigo.inspection.material import Material


def test_each_token_is_the_one_of_the_tensors(material: Material) -> None:
    for chosen in each_category(material, 5):
        row = material.encoded(chosen.row)
        laid, seen = material.laid_out([row]), see_row(material, chosen)
        assert [token.id for token in seen.tokens] == laid.input_ids[0].tolist() == list(row.ids)
        assert [token.position for token in seen.tokens] == laid.position_ids[0].tolist()
        assert [token.segment for token in seen.tokens] == laid.segment[0].tolist()
        assert [token.id for token in seen.tokens if token.counts] == laid.targets.tolist()
        assert [token.place for token in seen.tokens if token.counts] == (laid.places + 1).tolist()
        assert seen.n_counting == laid.n_supervised
        assert seen.tokens[-1].special
        assert seen.tokens[-1].counts


def test_what_is_learned_stands_beside_the_target(material: Material) -> None:
    (chosen,) = by_id(material, ["r00"]) if _is_open(material, "r00") else each_category(material)[:1]
    seen = see_row(material, chosen)
    (turn,) = seen.turns
    assert turn.learned == turn.target == chosen.row.fields["order"]
    assert (turn.end, turn.agreement) == ("<|im_end|>", "same")
    assert [piece.kind for piece in turn.differences] == ["same"]


def _is_open(material: Material, row_id: str) -> bool:
    return any(row.id == row_id for split in ("train", "validation") for row in material.rows(split))


@pytest.mark.parametrize("layout", ["packed", "padded"])
def test_attention_in_words_is_the_attention_of_the_mask(material_of: Callable[..., Material], layout: str) -> None:
    material = material_of(encoding__layout=layout)
    rows = [material.encoded(row) for row in material.rows("train")[:5]]
    laid = material.laid_out(rows)
    seen = see_pack(material, laid)
    assert all(segment.looks == "back" for segment in seen.segments)
    assert torch.equal(_mask_of(seen, laid), _mask_that_the_model_takes(laid))
    if layout == "packed":
        assert sorted(segment.number for segment in seen.segments) == [0, 1, 2, 3, 4, 5]
        assert len(seen.segments[0].tokens) == laid.n_prefix > 10
        assert seen.segments[0].n_counting == 0
        assert {segment.row_id for segment in seen.segments[1:]} == set(laid.row_ids)
    else:
        assert {segment.number for segment in seen.segments} == {-1, 1, 2, 3, 4, 5}
        assert all(segment.n_counting == 0 for segment in seen.segments if segment.number == -1)


def _mask_of(seen: SeenPack, laid: Pack) -> torch.Tensor:
    """(B, T, T) again from the ranges that a reader is told."""
    lines, length = laid.input_ids.shape
    mask, line = torch.zeros(lines, length, length, dtype=torch.bool), -1
    for segment in seen.segments:
        line = 0 if not seen.is_padded else line + (segment.number != -1)
        for token in segment.tokens:
            for first, last in segment.sees:
                mask[line, token.place, first : min(last, token.place) + 1] = True
    return mask


def _mask_that_the_model_takes(laid: Pack) -> torch.Tensor:
    if not laid.is_padded:
        return laid.attention_mask[0]
    length = laid.input_ids.shape[1]
    return torch.ones(length, length, dtype=torch.bool).tril()[None] & laid.attention_mask.bool()[:, None, :]


def test_an_attention_that_is_not_causal_is_not_called_so(material: Material) -> None:
    rows = [material.encoded(row) for row in material.rows("train")[:2]]
    laid = material.laid_out(rows)

    class SeesAll(Pack):
        @property
        def attention_mask(self) -> torch.Tensor:
            return torch.ones(1, 1, self.n_tokens, self.n_tokens, dtype=torch.bool)

    seen = see_pack(material, SeesAll(**laid.__dict__))
    assert not any(segment.looks == "back" for segment in seen.segments)


@pytest.mark.parametrize(
    ("learned", "target", "kinds"),
    [
        ("a b", "a b", ["same"]),
        ("", "a", ["absent"]),
        ("a", "", ["other"]),
        ("a  b", "a b", ["same", "absent", "other", "same"]),
        (" a b", "a b", ["other", "same"]),
        ("", "", []),
    ],
)
def test_white_space_is_a_difference_too(learned: str, target: str, kinds: Sequence[str]) -> None:
    found = compared(learned, target)
    assert [piece.kind for piece in found] == list(kinds)
    assert "".join(piece.text for piece in found if piece.kind != "absent") == learned
    assert "".join(piece.text for piece in found if piece.kind != "other") == target


def test_a_segment_counts_its_own(material: Material) -> None:
    laid = material.laid_out([material.encoded(row) for row in material.rows("train")[:3]])
    segments: tuple[Segment, ...] = see_pack(material, laid).segments
    assert sum(segment.n_counting for segment in segments) == laid.n_supervised
