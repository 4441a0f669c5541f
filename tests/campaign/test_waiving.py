"""A waiver written by a command changes nothing else in the file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from testigo.campaign import Campaign, load
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
    assert not list(path.parent.glob(".campaign*"))


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


def test_processes_that_waive_at_once_lose_no_waiver(tmp_path: Path) -> None:
    path = new_campaign(tmp_path / "new")
    waive = (
        "import sys; from pathlib import Path; from testigo.campaign.waiving import with_waiver;"
        "[with_waiver(Path(sys.argv[1]), code, 'it is so here') for code in sys.argv[2:]]"
    )
    codes = [[f"E{process}0{n}" for n in range(4)] for process in (1, 2, 3)]
    going = [
        subprocess.Popen([sys.executable, "-c", waive, str(path), *own], stderr=subprocess.PIPE, text=True)
        for own in codes
    ]
    assert [one.communicate()[1] for one in going] == ["", "", ""]
    assert set(load(path).waive) == {code for own in codes for code in own}


def test_what_is_saved_while_a_waiver_is_written_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = new_campaign(tmp_path / "new")

    def saved_meanwhile(aside: Path) -> Campaign:
        if "campaign: edited" not in path.read_text():
            path.write_text(path.read_text().replace("campaign: orders", "campaign: edited"))
        return load(aside)

    monkeypatch.setattr("testigo.campaign.waiving.load", saved_meanwhile)
    with_waiver(path, "E107", "it is so")
    assert (load(path).name, dict(load(path).waive)) == ("edited", {"E107": "it is so"})
    assert [one.name for one in path.parent.iterdir() if one.name.startswith(".")] == []
