"""A choice sheet: settings for each GPU, with the same examples in every update."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from testigo.campaign import Campaign
from testigo.sizing import Choice, RowLength, RowLengths, sheet
from testigo.sizing.terms import CONTEXT_BYTES

LENGTHS = RowLengths(tuple(RowLength(40 + n, 80 + 2 * n) for n in range(16)), (RowLength(40, 70),) * 3, 10)
MIB = 1 << 20


@pytest.fixture(scope="module")
def choices(campaign_on: Callable[..., Campaign]) -> dict[str, Choice]:
    gpus = {"large": 8 << 30, "narrow": CONTEXT_BYTES + 70 * MIB, "tiny": CONTEXT_BYTES + 2 * MIB}
    campaign = campaign_on("small", method="full", microbatch=4, accumulation=2)
    return {choice.gpu: choice for choice in sheet(campaign, gpus, lengths=LENGTHS)}


def test_every_choice_keeps_the_examples_of_an_update_and_the_precision(choices: dict[str, Choice]) -> None:
    assert {choice.examples_per_update for choice in choices.values()} == {8}
    assert {choice.precision for choice in choices.values()} == {"fp32"}
    for choice in choices.values():
        assert choice.microbatch * choice.accumulation * choice.gpus == 8


def test_a_large_gpu_takes_all_rows_at_once_and_says_how_long_they_may_be(choices: dict[str, Choice]) -> None:
    large = choices["large"]
    assert (large.microbatch, large.accumulation, large.gpus, large.verdict) == (8, 1, 1, "fits")
    assert large.change == {"training.microbatch": 8, "training.accumulation": 1}
    assert large.largest_length == 512  # all the places that the base has


def test_a_narrow_gpu_gets_what_saves_and_never_more_than_it_has(choices: dict[str, Choice]) -> None:
    narrow = choices["narrow"]
    if narrow.verdict == "fits":
        assert narrow.needed_bytes <= 0.9 * narrow.gpu_bytes
    assert narrow.microbatch <= choices["large"].microbatch
    assert narrow.needed_bytes < choices["large"].needed_bytes


def test_where_nothing_fits_the_most_saving_settings_are_shown_as_such(choices: dict[str, Choice]) -> None:
    tiny = choices["tiny"]
    assert tiny.verdict != "fits"
    assert tiny.largest_length is None
    assert tiny.gpus == 8
    assert json.loads(json.dumps(tiny.to_json()))["strategy"] == "fsdp"
