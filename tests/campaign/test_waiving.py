"""A waiver written by a command changes nothing else in the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from testigo.campaign import load
from testigo.campaign.starting import new_campaign
from testigo.campaign.waiving import with_waiver
from testigo.errors import CampaignError


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", 'waive:\n  E107: "they say: \\"fine\\""\n'),
        ("waive: {}\n", 'waive:\n  E107: "they say: \\"fine\\""\n'),
        ("waive: {D101: known here}  # a\n", 'waive: {E107: "they say: \\"fine\\"", D101: known here}  # a\n'),
        (
            "waive:\n    # a\n    D101: known here\n",
            'waive:\n    E107: "they say: \\"fine\\""\n    # a\n    D101: known here\n',
        ),
    ],
    ids=["none", "empty", "in one line", "in a block"],
)
def test_a_waiver_is_added_and_every_other_line_stays(tmp_path: Path, before: str, after: str) -> None:
    path = new_campaign(tmp_path / "new")
    text = path.read_text()
    path.write_text(f"{text.rstrip()}\n{before}")
    with_waiver(path, "E107", 'they say: "fine"')
    assert path.read_text() == f"{text.rstrip()}\n{after}"
    assert load(path).waive["E107"] == 'they say: "fine"'
    with pytest.raises(CampaignError, match="waived already"):
        with_waiver(path, "E107", "again")
    assert not path.with_name(".campaign.yaml.waived").exists()


def test_a_file_that_a_command_should_not_change_is_left_as_it_is(tmp_path: Path) -> None:
    path = new_campaign(tmp_path / "new")
    text = f"{path.read_text().rstrip()}\nwaive: {{\n  D101: known here}}\n"
    path.write_text(text)
    with_waiver(path, "E107", "it is so")
    assert dict(load(path).waive) == {"E107": "it is so", "D101": "known here"}
    text = path.read_text().replace("waive: {", '"waive": {')
    path.write_text(text)
    with pytest.raises(CampaignError):
        with_waiver(path, "E108", "it is so")
    assert path.read_text() == text
