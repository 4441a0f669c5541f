"""Rows laid into packs and batches: the same rows come back, and the same gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny import gradients, made_row, relative_error
from transformers import AutoModelForCausalLM

from testigo.encoding import EncodedRow, Pack, lay_out, pack, pad
from testigo.model.losses import supervised_logits, token_losses
from testigo.training.loss import row_losses

if TYPE_CHECKING:
    from tiny import Tiny

KINDS = ["llama", "gpt2", "qwen2"]
HEAD = tuple(range(20, 40))
BATCHES = {
    "ragged": [
        made_row("a", (*HEAD, 50, 51, 52), (60, 61)),
        made_row("b", (*HEAD, 53), (62, 63, 64, 65, 66, 67, 68)),
        made_row("c", (*HEAD, 50, 51, 54, 55, 56, 57, 58), (69,)),
    ],
    "single": [made_row("a", HEAD, (60, 61, 62))],
    "prefix of each other": [
        made_row("a", (*HEAD, 50, 51), (60, 61)),
        made_row("b", (*HEAD, 50, 51), (60, 61, 62, 63)),
        made_row("c", (*HEAD, 50), (51, 60, 61)),
    ],
    "twice the same": [made_row("a", HEAD, (60, 61)), made_row("b", HEAD, (60, 61))],
    "no common prefix": [made_row("a", (50, *HEAD), (60, 61)), made_row("b", (51, *HEAD[:5]), (62, 63, 64))],
    "turns": [
        EncodedRow("a", "", (*HEAD, 60, 61, 50, 51, 62, 63, 64), 20, ((20, 22), (24, 27))),
        EncodedRow("b", "", (*HEAD, 60, 61, 50, 52, 53, 65), 20, ((20, 22), (25, 26))),
        made_row("c", (*HEAD, 54), (66, 67)),
    ],
    "prompts of one token": [made_row("a", (50,), (60, 61)), made_row("b", (50,), (62, 63, 64))],
}


@pytest.fixture(scope="module")
def load(tiny: Tiny) -> Any:
    def from_folder(kind: str, **settings: Any) -> Any:
        return AutoModelForCausalLM.from_pretrained(tiny.folder / kind, **settings).eval()

    return from_folder


def summed_gradient(model: Any, batches: Sequence[Pack]) -> dict[str, torch.Tensor]:
    model.zero_grad()
    for batch in batches:
        token_losses(model, batch).sum().backward()
    return gradients(model)


@pytest.mark.parametrize("rows", BATCHES.values(), ids=BATCHES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_of_a_pack_is_that_of_its_rows_alone(load: Any, kind: str, rows: list[EncodedRow]) -> None:
    model = load(kind)
    alone = summed_gradient(model, [pack([row]) for row in rows])
    for layout in ("packed", "padded"):
        assert relative_error(summed_gradient(model, [lay_out(rows, layout, pad_id=0)]), alone) < 1e-5


def test_rows_alone_are_computed_as_the_model_itself_computes_them(load: Any) -> None:
    for kind in KINDS:
        model = load(kind)
        row = BATCHES["ragged"][1]
        ids = torch.tensor([row.ids])
        labels = torch.tensor([[-100] * row.n_prompt + list(row.ids[row.n_prompt :])])
        with torch.no_grad():
            own, theirs = token_losses(model, pack([row])).mean(), model(input_ids=ids, labels=labels).loss
        assert float(own) == pytest.approx(float(theirs), rel=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_the_losses_of_rows_in_a_pack_are_their_own(load: Any, kind: str) -> None:
    model, rows = load(kind), BATCHES["ragged"]
    batch = pack(rows)
    packed = row_losses(token_losses(model, batch), batch)
    for row in rows:
        single = pack([row])
        assert packed[row.id] == pytest.approx(row_losses(token_losses(model, single), single)[row.id], rel=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share_prefix", [True, False])
def test_a_row_does_not_see_its_neighbour(load: Any, kind: str, share_prefix: bool) -> None:  # C20
    model = load(kind)
    q = BATCHES["ragged"][1]
    before = pack([BATCHES["ragged"][2], q], share_prefix=share_prefix)
    after = pack([made_row("c", (*HEAD, 80, 81, 82, 83, 84, 85, 86), (87,)), q], share_prefix=share_prefix)
    mine = before.owner == 1
    with torch.no_grad():
        change = (supervised_logits(model, before)[mine] - supervised_logits(model, after)[mine]).abs().max()
        theirs = (supervised_logits(model, before)[~mine] - supervised_logits(model, after)[~mine]).abs().max()
    assert float(change) < 1e-5
    assert float(theirs) > 1e-2  # the perturbation is one that a model feels


def test_turns_count_each_with_its_end_and_what_lies_between_does_not() -> None:
    two, other, single = BATCHES["turns"]
    assert two.supervised_spans == ((20, 22), (24, 27))
    assert (two.n_supervised, two.n_before_answer, two.n_answer) == (5, 24, 3)
    assert single.supervised_spans == ((21, 23),)
    assert (single.n_supervised, single.n_before_answer, single.n_answer) == (2, 21, 2)
    for layout in ("packed", "padded"):
        batch = lay_out(BATCHES["turns"], layout, pad_id=0)
        assert batch.targets.tolist() == [60, 61, 62, 63, 64, 60, 61, 65, 66, 67]
        assert batch.owner.tolist() == [0] * 5 + [1] * 3 + [2] * 2
    assert pack([two, other]).n_prefix == len(HEAD) - 1  # although both begin with the same answer


def test_the_loss_of_turns_is_the_mean_over_their_own_tokens(load: Any) -> None:
    model, row = load("llama"), BATCHES["turns"][0]
    labels = torch.full((1, row.n_tokens), -100)
    for begin, end in row.supervised_spans:
        labels[0, begin:end] = torch.tensor(row.ids[begin:end])
    with torch.no_grad():
        theirs = model(input_ids=torch.tensor([row.ids]), labels=labels).loss
        assert float(token_losses(model, pack([row])).mean()) == pytest.approx(float(theirs), rel=1e-6)


def test_the_shared_prefix_is_computed_once() -> None:
    rows = BATCHES["ragged"]
    shared, apart = pack(rows), pack(rows, share_prefix=False)
    assert shared.n_prefix == len(HEAD)
    assert apart.n_tokens == sum(row.n_tokens for row in rows) == 81
    assert shared.n_tokens == apart.n_tokens - 2 * len(HEAD) == 41


def test_rows_of_a_campaign_need_half_the_tokens_or_less(tiny: Tiny) -> None:
    rows = tiny.session(tiny.folder / "unused").rows[:16]
    batch = pack(rows)
    assert batch.n_prefix >= 20
    assert batch.n_tokens == sum(row.n_tokens for row in rows) - 15 * batch.n_prefix
    assert batch.n_tokens < 0.75 * sum(row.n_tokens for row in rows)


def test_the_shared_prefix_ends_before_the_place_that_predicts_an_answer() -> None:
    same = pack(BATCHES["twice the same"])
    assert same.n_prefix == len(HEAD) - 1
    assert same.places.tolist() == [19, 20, 22, 23]


def test_padding_is_known_by_its_place_and_not_by_its_id() -> None:  # C14, C18
    rows = [made_row("a", HEAD, (60, 2)), made_row("b", HEAD[:4], (2, 2, 2))]
    batch = pad(rows, pad_id=2)
    assert batch.attention_mask.sum(1).tolist() == [22, 7]
    assert batch.targets.tolist() == [60, 2, 2, 2, 2]
    assert (batch.segment[0] == 1).all()


def test_an_eager_model_takes_the_packs_mask_too(load: Any) -> None:
    rows = BATCHES["ragged"]
    model, eager = load("llama"), load("llama", attn_implementation="eager")
    alone = summed_gradient(model, [pack([row]) for row in rows])
    assert relative_error(summed_gradient(eager, [pack(rows)]), alone) < 1e-5


id_lists = st.lists(st.integers(0, 5), min_size=1, max_size=12)
made_turns = st.lists(st.tuples(id_lists, id_lists), min_size=1, max_size=3)


def conversation(name: str, turns: Sequence[tuple[list[int], list[int]]]) -> EncodedRow:
    """A row of one or more questions and answers."""
    ids: list[int] = []
    spans: list[tuple[int, int]] = []
    for asked, answer in turns:
        ids += asked + answer
        spans.append((len(ids) - len(answer), len(ids)))
    return EncodedRow(name, "", tuple(ids), spans[0][0], tuple(spans) if len(spans) > 1 else None)


made_rows = st.lists(made_turns, min_size=1, max_size=6).map(
    lambda rows: [conversation(f"r{k}", turns) for k, turns in enumerate(rows)]
)


def unpacked(batch: Pack, number: int) -> tuple[list[int], list[int], list[int]]:
    """Ids, positions and targets of a row, from the tensors alone."""
    segment = batch.segment.flatten()
    own = segment == number + 1
    if batch.until is not None:
        own = batch.attention_mask[0, 0, int(own.nonzero().max())]  # what the row's last place sees
    return (
        batch.input_ids.flatten()[own].tolist(),
        batch.position_ids.flatten()[own].tolist(),
        batch.targets[batch.owner == number].tolist(),
    )


@given(rows=made_rows, layout=st.sampled_from(["packed", "padded"]))
def test_what_was_laid_out_comes_back(rows: list[EncodedRow], layout: Any) -> None:
    batch = lay_out(rows, layout, pad_id=0)
    assert batch.row_ids == tuple(row.id for row in rows)
    for number, row in enumerate(rows):
        ids, positions, targets = unpacked(batch, number)
        assert ids == list(row.ids)
        assert positions == list(range(row.n_tokens))
        assert targets == list(row.supervised_ids)
    assert (batch.input_ids.flatten()[batch.places] >= 0).all()
    assert batch.n_supervised == sum(row.n_supervised for row in rows)


@given(rows=made_rows)
def test_each_supervised_place_sees_exactly_its_own_row_up_to_itself(rows: list[EncodedRow]) -> None:
    batch = pack(rows)
    mask, ids = batch.attention_mask[0, 0], batch.input_ids[0]
    seen: dict[int, int] = {}
    for place, owner in zip(batch.places.tolist(), batch.owner.tolist(), strict=True):
        row, nth = rows[owner], seen.get(owner, 0)
        seen[owner] = nth + 1
        counted = [at for begin, end in row.supervised_spans for at in range(begin, end)]
        assert ids[mask[place]].tolist() == list(row.ids[: counted[nth]])
        assert batch.position_ids[0, place] == counted[nth] - 1
