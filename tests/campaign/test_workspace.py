"""Where a campaign's files lie, and the example that starts one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from testigo.campaign import Workspace, load, new_campaign
from testigo.campaign.starting import STARTER_FILES
from testigo.errors import CampaignError, WorkspaceError


def test_the_workspace_is_named_after_the_campaign_beside_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = load(new_campaign(tmp_path / "c"))
    monkeypatch.chdir(tmp_path)
    assert Workspace.for_campaign(campaign).root == tmp_path / "orders.testigo"
    assert Workspace.for_campaign(campaign, tmp_path / "w").root == tmp_path / "w"


def test_a_workspace_is_found_by_campaign_file_folder_or_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = new_campaign(tmp_path / "c")
    campaign = load(path)
    monkeypatch.chdir(tmp_path)
    made = Workspace.for_campaign(campaign).create(campaign)
    assert Workspace.find(path).root == made.root
    assert Workspace.find(made.root) == made
    assert Workspace.find(path, made.root) == made
    assert made.campaign_path == path.resolve()
    assert made.campaign_name == "orders"


def test_a_workspace_is_found_although_the_campaign_no_longer_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = new_campaign(tmp_path / "c")
    campaign = load(path)
    monkeypatch.chdir(tmp_path)
    made = Workspace.for_campaign(campaign).create(campaign)
    (tmp_path / "c" / "orders.jsonl").unlink()
    assert Workspace.find(path).root == made.root


def test_a_missing_workspace_says_which_command_makes_one(tmp_path: Path) -> None:
    path = new_campaign(tmp_path / "c")
    with pytest.raises(WorkspaceError, match=f"testigo run {path}"):
        Workspace.find(path, tmp_path / "nowhere")
    with pytest.raises(WorkspaceError, match=r"no workspace\.json in it"):
        Workspace.find(tmp_path / "c")


def test_a_campaign_without_a_name_has_no_workspace(tmp_path: Path) -> None:
    path = new_campaign(tmp_path)
    path.write_text(path.read_text().replace("campaign: orders", ""))
    with pytest.raises(CampaignError, match="the key `campaign`"):
        Workspace.find(path)


def test_the_parts_of_a_workspace_have_fixed_places(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    assert workspace.ledger_path == tmp_path / "ledger.sqlite"
    assert workspace.corpus("f") == tmp_path / "corpus" / "f"
    assert workspace.baseline("f") == tmp_path / "baseline" / "f"
    assert workspace.pilot("f") == tmp_path / "pilot" / "f"
    assert workspace.run("control-s0-0123456789") == tmp_path / "runs" / "control-s0-0123456789"
    assert workspace.dossier == tmp_path / "dossier"
    assert workspace.comparison_path == tmp_path / "comparison.json"


def test_creating_twice_is_the_same_workspace(tmp_path: Path) -> None:
    campaign = load(new_campaign(tmp_path / "c"))
    workspace = Workspace(tmp_path / "w").create(campaign)
    marker = workspace.root / "workspace.json"
    before = marker.stat().st_mtime_ns
    workspace.create(campaign)
    assert marker.stat().st_mtime_ns == before
    assert json.loads(marker.read_text()) == {"campaign": "orders", "format": 1, "path": str(campaign.path.resolve())}
    assert [entry.name for entry in workspace.root.iterdir()] == ["workspace.json"]


def test_another_campaigns_workspace_is_refused(tmp_path: Path) -> None:
    path = new_campaign(tmp_path / "c")
    Workspace(tmp_path / "w").create(load(path))
    path.write_text(path.read_text().replace("campaign: orders", "campaign: letters"))
    with pytest.raises(WorkspaceError, match="that of the campaign `orders`"):
        Workspace(tmp_path / "w").create(load(path))


def test_a_folder_with_other_files_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = new_campaign(tmp_path / "c")
    before = sorted(entry.name for entry in (tmp_path / "c").iterdir())
    with pytest.raises(WorkspaceError, match="a folder with other files"):
        Workspace(tmp_path / "c").create(load(path))
    assert sorted(entry.name for entry in (tmp_path / "c").iterdir()) == before


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    campaign = load(new_campaign(tmp_path / "c"))
    (tmp_path / "file").write_text("")
    with pytest.raises(WorkspaceError, match="a folder that can be written"):
        Workspace(tmp_path / "file").create(campaign)
    with pytest.raises(WorkspaceError, match="a folder that can be written"):
        Workspace(Path("/proc/testigo/w")).create(campaign)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"campaign": "orders", "format": 2}'])
def test_a_damaged_or_foreign_mark_is_refused(tmp_path: Path, text: str) -> None:
    campaign = load(new_campaign(tmp_path / "c"))
    workspace = Workspace(tmp_path / "w").create(campaign)
    (workspace.root / "workspace.json").write_text(text)
    with pytest.raises(WorkspaceError):
        workspace.create(campaign)
    with pytest.raises(WorkspaceError):
        Workspace.find(workspace.root)


def test_new_writes_a_campaign_and_never_over_a_file(tmp_path: Path) -> None:
    path = new_campaign(tmp_path / "a" / "b")
    assert path == tmp_path / "a" / "b" / "campaign.yaml"
    assert sorted(entry.name for entry in path.parent.iterdir()) == sorted(STARTER_FILES["extraction"])
    path.write_text("mine")
    with pytest.raises(WorkspaceError, match="nothing was written"):
        new_campaign(path.parent)
    assert path.read_text() == "mine"
    (tmp_path / "file").write_text("")
    with pytest.raises(WorkspaceError, match="a folder that can be written"):
        new_campaign(tmp_path / "file" / "c")


def test_the_starters_rows_have_its_fields_and_follow_its_schema(tmp_path: Path) -> None:
    import jsonschema

    campaign = load(new_campaign(tmp_path))
    schema = json.loads((tmp_path / "order.schema.json").read_text())
    rows = [json.loads(line) for line in (tmp_path / "orders.jsonl").read_text().splitlines()]
    assert len(rows) == 120
    assert len({row["id"] for row in rows}) == 120
    assert len({row["email"] for row in rows}) == 120
    for row in rows:
        assert {campaign.task.input, campaign.task.target, campaign.task.category, campaign.data.group} <= set(row)
        jsonschema.validate(row["order"], schema)


def test_a_campaign_of_classes_can_be_begun_too(tmp_path: Path) -> None:
    campaign = load(new_campaign(tmp_path, "classification"))
    rows = [json.loads(line) for line in (tmp_path / "tickets.jsonl").read_text().splitlines()]
    assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted(STARTER_FILES["classification"])
    assert len({row["id"] for row in rows}) == len(rows)
    for row in rows:
        assert {campaign.task.input, campaign.task.category, campaign.data.group} <= set(row)
    assert {row[campaign.task.target] for row in rows} == set(campaign.task.labels)
