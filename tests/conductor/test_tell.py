"""At a campaign's end a tracker that does not answer is waited for once, whatever the number of runs."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from testigo.campaign import PlannedRun, load
from testigo.campaign.starting import new_campaign
from testigo.conductor import tell
from testigo.disk import write_json
from testigo.watch.trackers.relay import GIVEN_UP


@pytest.fixture
def grounds(tmp_path: Path) -> Any:
    """A campaign of three seeds whose runs have ended; of its grounds what the telling asks for."""
    new_campaign(tmp_path / "shop")
    file = tmp_path / "shop" / "campaign.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace("seeds: [0]", "seeds: [0, 1, 2]") + "\ntrack: [wandb]\n")
    campaign = load(file)
    assert len(campaign.seeds) == 3

    def spec(planned: PlannedRun) -> Any:
        return SimpleNamespace(run_id=f"control-s{planned.seed}")

    for seed in campaign.seeds:
        folder = tmp_path / f"control-s{seed}"
        folder.mkdir()
        (folder / "steps.jsonl").write_text('{"update": 1, "loss": 1.0}\n', encoding="utf-8")
    said: list[str] = []
    return SimpleNamespace(
        campaign=campaign, spec=spec, workspace=SimpleNamespace(run=lambda run: tmp_path / run), said=said,
        ledger=SimpleNamespace(runs=list), reporter=SimpleNamespace(say=said.append),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("error", "asked"), [(f"{GIVEN_UP} it took nothing for 30 s", 1), ("CommError: no such project", 3)]
)
def test_who_does_not_answer_for_one_run_is_not_asked_for_the_others(
    grounds: Any, monkeypatch: pytest.MonkeyPatch, error: str, asked: int
) -> None:
    folders: list[Path] = []

    def finish(module: str, spec: str, *, log: Path) -> None:
        folders.append(Path(spec).parent)
        state = json.loads((folders[-1] / "trackers.json").read_text(encoding="utf-8"))
        write_json(folders[-1] / "trackers.json", state | {"told": {"wandb": {"dropped": 1, "error": error}}})

    monkeypatch.setattr(tell.local, "finish", finish)
    tell.trackers(grounds)
    assert len(folders) == asked
    assert [line for line in grounds.said if error in line] == [f"  trackers: wandb was left behind: {error}"] * asked
