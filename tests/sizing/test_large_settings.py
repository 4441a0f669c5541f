"""Every value that a campaign file allows is answered: by few runs, and where it is absurd, by arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from memory import CONFIGURATIONS

from testigo.campaign import Campaign
from testigo.campaign.sections import MOST_ROWS
from testigo.cli.size import print_sheet, print_sizing
from testigo.sizing import Choice, RowLength, RowLengths, Sizing, sheet, size
from testigo.sizing.bench import Bench
from testigo.sizing.lengths import MOST_GROUPS, Meeting, worst
from testigo.sizing.rehearse import rehearse
from testigo.sizing.sheet import candidates
from testigo.sizing.sizing import phase_sizes

LENGTHS = RowLengths(
    tuple(RowLength(40 + n, 80 + 2 * n) for n in range(16)), tuple(RowLength(40, 70 + n) for n in range(4)), 10
)
GIB = 1 << 30


class Heard:
    """What was told of the progress."""

    def __init__(self) -> None:
        self.told: list[tuple[int, int, str]] = []

    def __call__(self, done: int, of: int, words: str) -> None:
        self.told.append((done, of, words))


@pytest.fixture(scope="module")
def heard() -> Heard:
    return Heard()


@pytest.fixture(scope="module")
def absurd(campaign_on: Callable[..., Campaign], heard: Heard) -> Sizing:
    campaign = campaign_on("small", microbatch=MOST_ROWS, accumulation=MOST_ROWS)
    return size(campaign, gpu_bytes=8 * GIB, lengths=LENGTHS, progress=heard)


def test_a_pack_holds_no_more_rows_than_there_are(absurd: Sizing, campaign_on: Callable[..., Campaign]) -> None:
    all_rows = Bench(campaign_on("small", microbatch=16, accumulation=MOST_ROWS), CONFIGURATIONS["small"], LENGTHS)
    assert absurd.phases == phase_sizes(all_rows.whole)
    assert "16 rows" in absurd.inputs
    assert absurd.largest_microbatch == 16


def test_its_progress_is_counted_up_to_its_end(absurd: Sizing, heard: Heard) -> None:
    assert absurd.method == "followed"
    assert [done for done, _, _ in heard.told] == list(range(len(heard.told)))
    assert all(done < of for done, of, _ in heard.told[:-1])
    assert heard.told[-1][:2] == (len(heard.told) - 1,) * 2


def test_microbatches_that_wait_are_counted_and_not_laid() -> None:
    inputs = worst(LENGTHS, Meeting(2, 1000, 2))
    assert (len(inputs.microbatches), inputs.n_more) == (MOST_GROUPS, 1000 - MOST_GROUPS)


@pytest.mark.parametrize("settings", [{"layout": "padded"}, {"name": "bert"}], ids=str)
def test_more_tokens_than_can_be_followed_are_counted(
    settings: dict[str, str], campaign_on: Callable[..., Campaign]
) -> None:
    campaign = campaign_on(**{"name": "small", **settings}, microbatch=MOST_ROWS)
    lengths = replace(LENGTHS, n_shared=0, n_classes=3) if "name" in settings else LENGTHS
    sizing = size(campaign, gpu_bytes=8 * GIB, lengths=lengths)
    assert (sizing.method, sizing.verdict) == ("formula", "does not fit")
    assert "tokens go through it at once" in sizing.why_formula


def test_as_many_images_as_the_file_allows_are_followed(campaign_on: Callable[..., Campaign]) -> None:
    rows = (RowLength(0, 1),) * 8
    lengths = RowLengths(rows, rows, 0, n_classes=3, pixels=(3, 32, 32))
    inputs = worst(lengths, Meeting(MOST_ROWS, 1, 8, is_packed=False))
    peaks = rehearse(campaign_on("vit", microbatch=MOST_ROWS), CONFIGURATIONS["vit"], inputs, parts=["later"])
    assert peaks["backward"].n_bytes > 3 * 32 * 32 * 4 * MOST_ROWS


@pytest.fixture(scope="module")
def choices(campaign_on: Callable[..., Campaign]) -> tuple[Choice, ...]:
    campaign = campaign_on("small", microbatch=MOST_ROWS, accumulation=4)
    return sheet(campaign, {"RTX 6000 Ada": 192 * GIB}, lengths=LENGTHS)


def test_a_sheet_asks_for_no_more_accumulation_than_a_file_may_have(
    choices: tuple[Choice, ...], campaign_on: Callable[..., Campaign]
) -> None:
    (large,) = choices
    assert (large.microbatch, large.accumulation, large.verdict) == (16, MOST_ROWS // 4, "fits")
    found = list(candidates(campaign_on("small", microbatch=MOST_ROWS, accumulation=4), 16))
    assert max(way["training.accumulation"] for way in found) == MOST_ROWS
    assert {way["training.microbatch"] for way in found} == {1, 2, 4, 8, 16}


def test_tables_stand_in_eighty_columns(
    absurd: Sizing, choices: tuple[Choice, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """With every kind of bytes, and as many digits as large machines need."""
    kinds: dict[str, Any] = {"exchange": 12 * GIB, "optimizer_state": 123 * GIB}
    wide = [replace(one, peak_bytes=543 * GIB, by_kind={**one.by_kind, **kinds}) for one in absurd.phases]
    print_sizing(replace(absurd, phases=tuple(wide), typical_phases=tuple(wide), gpu_bytes=192 * GIB))
    print_sheet(choices)
    lines = capsys.readouterr().out.splitlines()
    table = [line for line in lines if line.startswith(("phase", *(one.phase for one in wide), "GPU ", "RTX", "L4"))]
    assert len(table) == 1 + len(wide) + 1 + len(choices)
    assert max(map(len, table)) <= 80
