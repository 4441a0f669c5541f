"""Workspaces for the page: the dossier's told campaign, and one whose run is still going on."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from starlette.testclient import TestClient

from testigo.campaign import Workspace, planned_runs, run_id
from testigo.page.app import application_of
from testigo.page.guard import Access

HOST = "http://127.0.0.1:8420"


def _dossier_story() -> ModuleType:
    """The dossier's maker of campaigns: one story for both, so that the page is tested on what the report is."""
    name = "dossier_story"
    if name not in sys.modules:
        path = Path(__file__).parents[1] / "dossier" / "conftest.py"
        specification = importlib.util.spec_from_file_location(name, path)
        assert specification is not None
        assert specification.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(sys.modules[name])
    return sys.modules[name]


@dataclass
class Living:
    """A campaign whose first run is going on, in this very process."""

    story: Any
    run: str
    update: int = 0

    @property
    def workspace(self) -> Workspace:
        place: Workspace = self.story.workspace
        return place

    @property
    def folder(self) -> Path:
        return self.workspace.run(self.run)

    def step(self, n: int = 1, **changed: Any) -> int:
        """Write lines as the loop does, each flushed."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "steps.jsonl").open("a", encoding="utf-8") as file:
            for _ in range(n):
                self.update += 1
                line = {"update": self.update, "loss": 2.0 / self.update, "learning_rate": 1e-3 / self.update,
                        "gradient_norm": 1.0 + 1 / self.update, "clipped": True, "supervised_tokens": 220,
                        "tokens": 810, "examples": 2, "seconds": 0.5, "resident_bytes": 3 * 1024**3,
                        "allocated_bytes": None, "reserved_bytes": None, "rows": ["o001", "o002"],
                        "row_losses": {"o001": 0.5, "o002": 7.25}, "skipped": False, "epoch": 0.1}  # fmt: skip
                file.write(json.dumps({**line, **changed}) + "\n")
        return self.update

    def validate(self, loss: float = 1.25) -> None:
        with (self.folder / "steps.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps({"update": self.update, "validation_loss": loss, "seconds": 2.0}) + "\n")

    def find(self, **changed: Any) -> None:
        finding = {"code": "T106", "name": "spike", "severity": "warn", "phase": "watch", "rows": ["o002"],
                   "observed": "the loss is 7.25", "remedy": "look at them", "update": self.update}  # fmt: skip
        with (self.folder / "findings.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps({**finding, **changed}) + "\n")


@pytest.fixture(scope="session")
def making() -> ModuleType:
    return _dossier_story()


@pytest.fixture(scope="session")
def told(making: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A whole campaign, without its dossier; not to be changed."""
    return making.whole_story(tmp_path_factory.mktemp("told"))


@pytest.fixture
def story(told: Any, making: ModuleType, tmp_path: Path) -> Iterator[Any]:
    """A copy of the whole campaign that a test may change."""
    folder = tmp_path / "orders.testigo"
    shutil.copytree(told.workspace.root, folder)
    yield making.Story(told.campaign, Workspace(folder))
    for path in folder.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)


@pytest.fixture
def living(making: ModuleType, tmp_path: Path) -> Living:
    """A campaign with baseline and pilot, whose control runs and has made no update yet."""
    story = making.begin(tmp_path, making.write_campaign(tmp_path, n_rows=120))
    corpus = making.make_corpus(story)
    making.make_baseline(story, corpus)
    making.make_pilot(story)
    planned = planned_runs(story.campaign)[0]
    name = run_id(planned, corpus=corpus.fingerprint, base=making.BASE_SHA256)
    with story.ledger() as ledger:
        ledger.plan_run(name, variant=planned.variant, seed=planned.seed, defines={"corpus": corpus.fingerprint})
        ledger.start_run(name, pid=os.getpid())
    return Living(story, name)


@pytest.fixture
def ask() -> Callable[..., TestClient]:
    """A client of a workspace's page."""
    return lambda workspace, **access: TestClient(
        application_of(workspace, Access(**access))[0], base_url=HOST, follow_redirects=False
    )


@pytest.fixture(scope="session")
def client(told: Any) -> TestClient:
    """A client of the whole campaign."""
    return TestClient(application_of(told.workspace, Access())[0], base_url=HOST, follow_redirects=False)
