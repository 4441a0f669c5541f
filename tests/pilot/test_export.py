"""What the disk has to hold before the first run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from testigo.pilot.export import checkpoints_to_come

if TYPE_CHECKING:
    from tiny import Tiny


def test_checkpoints_of_all_variants_and_seeds_are_counted_and_those_that_are_there_are_not(
    tiny: Tiny, tmp_path: Path
) -> None:
    one = {"training.updates": 40, "training.checkpoint": {"every": 5, "keep": 2}}
    assert checkpoints_to_come(tiny.campaign(one), tmp_path) == 3
    more = {
        **one,
        "seeds": [0, 1, 2],
        "variants": [{"name": "keeps-more", "set": {"training.checkpoint.keep": 4}, "because": "to look back"}],
    }
    campaign = tiny.campaign(more)
    assert checkpoints_to_come(campaign, tmp_path) == 3 * 3 + 3 * 5
    for update in (35, 40):
        (tmp_path / "run" / "checkpoints" / f"{update:06d}").mkdir(parents=True)
    (tmp_path / "run" / "checkpoints" / ".000040.77").mkdir()
    assert checkpoints_to_come(campaign, tmp_path) == 3 * 3 + 3 * 5 - 2
