"""A campaign whose ledger lies on a real database server: told once, remembered, read by every command."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from postgres import Server

from testigo.campaign import Workspace, new_campaign
from testigo.cli import run
from testigo.page.site import Site


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    started = Server()
    yield started
    started.remove()


@pytest.fixture
def campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    new_campaign(Path("c"))
    return Path("c/campaign.yaml")


def answer(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> dict[str, Any]:
    assert run([*map(str, arguments), "--json"]) == code
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_the_first_command_names_the_server_and_all_others_find_it(
    server: Server, campaign: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = server.url.replace("testigo@", "testigo:secret@")
    answer(capsys, "check", campaign, "--ledger", named)
    workspace = Workspace.find(campaign)
    place = f"{server.url}?schema=testigo_orders"
    assert workspace.ledger_place == place
    assert not workspace.ledger_path.exists()
    answer(capsys, "check", campaign)  # as a second start does
    answer(capsys, "note", campaign, "the server is new")
    assert answer(capsys, "ledger", "verify", campaign)["ok"] is True
    kinds = [event["kind"] for event in answer(capsys, "ledger", "list", campaign)["events"]]
    assert kinds[0] == "workspace-created"
    assert kinds[-1] == "note"
    assert answer(capsys, "status", campaign)["campaign"] == "orders"
    assert server.sql("SELECT count(*) FROM testigo_orders.events") == [(len(kinds),)]
    written = [path for path in Path().rglob("*") if path.is_file() and b"secret" in path.read_bytes()]
    assert written == []
    site = Site(workspace)
    assert site._recorded()[0][-1].kind == "note"
    answer(capsys, "note", campaign, "seen live")
    assert site._recorded()[0][-1].body["text"] == "seen live"
    site._open().close()


def test_a_ledger_does_not_move(server: Server, campaign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer(capsys, "check", campaign)
    (problem,) = answer(capsys, "check", campaign, "--ledger", server.url, code=2)["problems"]
    assert problem["expected"] == "the ledger of this workspace, ledger.sqlite"
    (problem,) = answer(capsys, "check", campaign, "--ledger", "mysql://a:secret@b/c", code=2)["problems"]
    assert "secret" not in json.dumps(problem)
