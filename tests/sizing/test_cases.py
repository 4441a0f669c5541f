"""Two failures that cost others a night, predicted before anything is rented."""

from __future__ import annotations

from collections.abc import Callable

from memory import CONFIGURATIONS

from testigo.campaign import Campaign
from testigo.sizing.lengths import Meeting, RowLength, RowLengths, worst
from testigo.sizing.rehearse import rehearse


def test_validation_that_keeps_all_logits_is_predicted_and_the_packed_one_keeps_few(
    campaign_on: Callable[..., Campaign],
) -> None:
    """Case C45: rows × length × vocabulary × 4 bytes."""
    lengths = RowLengths((RowLength(60, 90),) * 4, (RowLength(60, 90),) * 6)
    inputs = worst(lengths, Meeting(2, 1, 6))
    peaks = {
        layout: rehearse(campaign_on("llama", layout=layout), CONFIGURATIONS["llama"], inputs, parts=["later"])
        for layout in ("padded", "packed")
    }
    kept = {layout: peaks[layout]["validation"].by_kind.get("logits", 0) for layout in peaks}
    everything, supervised = 6 * 90 * 2000 * 4, 6 * 30 * 2000 * 4
    assert everything <= kept["padded"] <= everything + 2 * supervised + 4096
    assert kept["packed"] <= 3 * supervised
    assert peaks["padded"]["validation"].n_bytes > peaks["packed"]["validation"].n_bytes


def test_the_longest_row_of_every_split_is_predicted_though_the_median_is_short(
    campaign_on: Callable[..., Campaign],
) -> None:
    """Case C17: the longest training row has 466 tokens, the longest validation row 473."""
    train = (*(RowLength(40, 60) for _ in range(20)), RowLength(400, 466))
    validation = (*(RowLength(40, 60) for _ in range(20)), RowLength(400, 473))
    inputs = worst(RowLengths(train, validation), Meeting(1, 1, 1))
    assert [row.n_tokens for row in (*inputs.microbatches[0], *inputs.validation)] == [466, 473]
    campaign = campaign_on("small")
    longest = rehearse(campaign, CONFIGURATIONS["small"], inputs)
    usual = worst(RowLengths(train[:-1], validation[:-1]), Meeting(1, 1, 1))
    short = rehearse(campaign, CONFIGURATIONS["small"], usual)
    for phase in ("backward", "validation", "samples", "evaluation", "export"):
        assert longest[phase].n_bytes > short[phase].n_bytes
