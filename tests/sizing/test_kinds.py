"""Whose bytes they are: held against what follows from the configuration by arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from testigo.campaign import Campaign
from testigo.encoding import EncodedRow, pack
from testigo.errors import ModelError
from testigo.sizing import passes
from testigo.sizing.architecture import shape, source_of
from testigo.sizing.bench import Bench
from testigo.sizing.lengths import Inputs, Meeting, RowLength, RowLengths, can_lie_in_one, typical, worst
from testigo.sizing.rehearse import PHASES, Part, rehearse
from testigo.sizing.tracker import Tracker

PARTS_OF_AN_UPDATE: tuple[Part, ...] = ("train", "later")
INPUTS = Inputs(((RowLength(30, 50), RowLength(40, 70)),), (RowLength(40, 60), RowLength(50, 80)), n_shared=20)


def parameter_bytes(model: Any, *, trained: bool) -> int:
    return sum(p.numel() * p.element_size() for p in model.parameters() if p.requires_grad or not trained)


@pytest.mark.parametrize("method", ["lora", "full"])
def test_weights_gradients_and_moments_are_those_of_the_architecture(
    method: str, campaign_on: Callable[..., Campaign], configurations: dict[str, Any]
) -> None:
    campaign = campaign_on("qwen2", method=method)
    model = shape(campaign, configurations["qwen2"], adapted=True)
    trained = parameter_bytes(model, trained=True)
    buffers = sum(b.numel() * b.element_size() for b in model.buffers())
    peaks = rehearse(campaign, configurations["qwen2"], INPUTS, parts=["train"], block_bytes=1)
    missing = {"evaluation", "export"} | ({"merge"} if method == "full" else set())
    assert tuple(peaks) == tuple(phase for phase in PHASES if phase not in missing)
    assert peaks["load"].by_kind == {"weights": parameter_bytes(model, trained=False) + buffers}
    step = peaks["step"].by_kind
    n_counts = sum(p.requires_grad for p in model.parameters())
    assert step["gradients"] == trained
    assert step["optimizer_state"] == 2 * trained + 4 * n_counts
    for peak in peaks.values():
        assert sum(peak.by_kind.values()) == peak.n_bytes
        assert min(peak.by_kind.values()) > 0


@pytest.mark.parametrize(
    ("method", "forward", "backward"),
    [
        ("lora", 3, 0),  # under a frozen head a loss, its logits and their gradient come and go in the forward pass
        ("full", 2, 3),  # under a trained head they are made again backwards, then with their gradient
    ],
)
def test_logits_are_counted_at_supervised_places_alone(
    method: str, forward: int, backward: int, campaign_on: Callable[..., Campaign], configurations: dict[str, Any]
) -> None:
    one_matrix = 2000 * 4 * sum(row.n_supervised for row in INPUTS.microbatches[0])
    campaign = campaign_on("llama", method=method)
    peaks = rehearse(campaign, configurations["llama"], INPUTS, parts=["train"], block_bytes=1)
    assert peaks["forward"].by_kind["logits"] == forward * one_matrix
    assert peaks["backward"].by_kind.get("logits", 0) == backward * one_matrix


def test_the_cache_of_generation_holds_the_longest_prompt_and_all_new_tokens_for_every_row(
    campaign_on: Callable[..., Campaign], configurations: dict[str, Any]
) -> None:
    peaks = rehearse(campaign_on("llama"), configurations["llama"], INPUTS, parts=["evaluate"], block_bytes=1)
    layers, heads, head_size, longest, new = 2, 3, 16, 50, 12
    per_token = 2 * layers * heads * head_size * 4
    whole = len(INPUTS.validation) * (longest + new - 1) * per_token
    assert 0.95 * whole <= peaks["evaluation"].by_kind["cache"] <= 2 * whole
    assert "optimizer_state" not in peaks["evaluation"].by_kind
    assert peaks["export"].by_kind["logits"] >= longest * 2000 * 4


@pytest.mark.parametrize("accumulation", [1, 3])
def test_one_microbatch_alone_peaks_as_it_does_in_a_later_update(
    accumulation: int, campaign_on: Callable[..., Campaign], configurations: dict[str, Any]
) -> None:
    campaign = campaign_on("llama", accumulation=accumulation)
    lengths = RowLengths(tuple(RowLength(30 + n, 60 + 2 * n) for n in range(6)), (RowLength(30, 60),))
    inputs = worst(lengths, Meeting(2, accumulation, 1))
    whole = rehearse(campaign, configurations["llama"], inputs, parts=["train"], block_bytes=1)
    alone = rehearse(campaign, configurations["llama"], inputs, parts=["later"], block_bytes=1)
    for phase in ("forward", "backward"):
        assert alone[phase].n_bytes == pytest.approx(whole[phase].n_bytes, rel=0.001)


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_a_prefix_over_packs_is_kept_once_and_a_later_update_peaks_as_the_first(
    name: str, campaign_on: Callable[..., Campaign], configurations: dict[str, Any]
) -> None:
    campaign = campaign_on(name, microbatch=1, accumulation=4)
    lengths = RowLengths(tuple(RowLength(150 + n, 180 + 2 * n) for n in range(4)), (RowLength(130, 160),), 120)
    inputs = worst(lengths, Meeting(1, 4, 1))
    whole, alone = (
        rehearse(campaign, configurations[name], inputs, parts=[part], block_bytes=1) for part in PARTS_OF_AN_UPDATE
    )
    layers, per_token = 2, 2 * 96 * (1 if name == "gpt2" else 0.5) * 4  # half of Llama's heads have keys of their own
    assert whole["backward"].by_kind["cache"] >= layers * per_token * 120
    for phase in ("forward", "backward", "update-2"):
        assert alone[phase] == whole[phase]
    apart = rehearse(
        campaign, configurations[name], worst(replace(lengths, n_shared=0), Meeting(1, 4, 1)), parts=["later"]
    )
    assert "cache" not in apart["backward"].by_kind


def test_losses_in_many_pieces_are_followed_by_a_few_of_them(
    campaign_on: Callable[..., Campaign], configurations: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths = RowLengths((RowLength(60, 300),) * 24, (RowLength(60, 300),) * 24)
    inputs = worst(lengths, Meeting(24, 1, 24))
    for method in ("lora", "full"):
        campaign = campaign_on("llama", method=method, microbatch=24)
        every = rehearse(campaign, configurations["llama"], inputs, parts=["later"])
        with monkeypatch.context() as few:
            few.setattr(passes, "MOST_PIECES", 1)  # of three
            some = rehearse(campaign, configurations["llama"], inputs, parts=["later"])
        for phase in ("forward", "backward", "validation"):
            assert some[phase].n_bytes == pytest.approx(every[phase].n_bytes, rel=0.02)


def test_activation_checkpointing_saves_activations_and_nothing_else(
    campaign_on: Callable[..., Campaign], configurations: dict[str, Any]
) -> None:
    plain, saving = (
        rehearse(campaign_on("gpt2", activation_checkpointing=on), configurations["gpt2"], INPUTS, parts=["train"])
        for on in (False, True)
    )
    assert saving["forward"].by_kind["activations"] < 0.5 * plain["forward"].by_kind["activations"]
    assert saving["load"] == plain["load"]
    assert saving["step"] == plain["step"]


def test_longer_rows_never_need_less(campaign_on: Callable[..., Campaign], configurations: dict[str, Any]) -> None:
    lengths = RowLengths(tuple(RowLength(20, 30 + 10 * n) for n in range(5)), (RowLength(20, 40),))
    meeting = Meeting(2, 1, 1)
    campaign = campaign_on("llama")
    longest, usual = (
        rehearse(campaign, configurations["llama"], inputs, parts=["later"])["backward"].n_bytes
        for inputs in (worst(lengths, meeting), typical(lengths, meeting))
    )
    assert longest > usual


def test_packs_made_of_lengths_are_laid_as_packs_of_the_rows_themselves() -> None:
    start = (1, 2, 3, 4)
    rows = [EncodedRow("a", "", (*start, 5, 6, 7), 5), EncodedRow("b", "", (*start, 8, 9, 10, 11, 12), 6)]
    lengths = RowLengths.of(rows, rows)
    assert lengths.n_shared == 4
    inputs = worst(lengths, Meeting(2, 1, 2))
    real, made = pack(rows), pack(inputs.encoded(inputs.microbatches[0]))
    assert torch.equal(made.attention_mask, real.attention_mask)
    assert torch.equal(made.places, real.places)
    assert made.n_prefix == real.n_prefix == 4


def test_short_rows_may_lie_in_one_pack_where_the_longest_leave_room() -> None:
    short, long = RowLength(125, 130), RowLength(200, 300)
    lengths = RowLengths((short,) * 8 + (long,), (short,), n_shared=120)
    assert can_lie_in_one(lengths, Meeting(1, 8, 1))
    assert not can_lie_in_one(lengths, Meeting(1, 1, 1)), "an update of one microbatch always does"
    assert not can_lie_in_one(RowLengths((long,) * 8, (short,), n_shared=120), Meeting(1, 8, 1))
    assert not can_lie_in_one(lengths, Meeting(1, 8, 1, is_packed=False))


def test_what_lies_in_one_pack_is_sized_where_it_takes_more(
    campaign_on: Callable[..., Campaign], configurations: dict[str, Any]
) -> None:
    """With dropout GPT-2 keeps what attention compares; a cache before several packs makes that less."""
    campaign = campaign_on("gpt2", microbatch=1, accumulation=4)
    lengths = RowLengths((RowLength(125, 130),) * 4 + (RowLength(150, 230),) * 4, (RowLength(125, 130),), 120)
    bench = Bench(campaign, configurations["gpt2"], lengths)
    several = rehearse(campaign, configurations["gpt2"], worst(lengths, Meeting(1, 4, 2)), parts=["later"])
    assert bench.order == "one pack"
    assert bench.whole["backward"].n_bytes > several["backward"].n_bytes


def test_rows_come_round_again_where_an_update_needs_more_than_there_are() -> None:
    lengths = RowLengths((RowLength(3, 5), RowLength(3, 9)), (RowLength(3, 5),))
    inputs = worst(lengths, Meeting(2, 2, 8))
    assert [[row.n_tokens for row in rows] for rows in inputs.microbatches] == [[5, 9], [5, 9]]
    assert len(inputs.validation) == 1


def test_a_tensor_counts_once_and_goes_when_its_last_view_goes() -> None:
    tracker = Tracker(block_bytes=512, vocabulary_size=7)
    with tracker, tracker.phase("p", making="activations"):
        view = torch.zeros(100)[10:].view(9, 10)
        torch.zeros(3, 7)
        del view
        torch.zeros(1)
    peak = tracker.log.peaks()["p"]
    assert peak.by_kind == {"activations": 512, "logits": 512}
    assert peak.n_bytes == 1024


def test_a_base_without_a_configuration_is_told_in_four_parts(campaign_on: Callable[..., Campaign]) -> None:
    campaign = campaign_on("llama")
    with pytest.raises(ModelError) as told:
        source_of(
            campaign.model_copy(update={"model": campaign.model.model_copy(update={"base": "path:nowhere"})})
        ).configuration()
    assert "no such folder" in str(told.value)
