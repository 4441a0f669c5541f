"""Attacks: what other pages, other machines, and hostile rows can do."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from testigo.errors import TestigoError
from testigo.page.guard import POLICY, is_loopback
from testigo.page.serving import application, serve

TOKEN = "a-token-of-many-letters"


def test_hostile_rows_and_outputs_never_become_markup(client: TestClient, told: Any, making: Any) -> None:
    text = client.get("/rows?kind=broken").text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    for path in ("/", "/gates", "/rows", "/rows?kind=fixed", "/rows?kind=both_wrong", "/ledger"):
        text = client.get(path).text
        assert text.count("<script") == 1
        assert "<img" not in text
        assert 'href="javascript:' not in text
        assert "49" not in text.partition("7 * 7")[0][-20:]


def test_hostile_findings_causes_logs_and_notes_never_become_markup(
    living: Any, ask: Callable[..., TestClient]
) -> None:
    attack = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)> {{ 7 * 7 }}"
    living.step(2, row_losses={attack: 1.0})
    living.find(code=attack, name=attack, observed=attack, remedy=attack, rows=[attack])
    (living.folder / "log.txt").write_text(attack)
    with living.story.ledger() as ledger:
        ledger.append("note", {"text": attack})
        ledger.append("note", {attack: attack})
        ledger.end_run(living.run, state="diverged", cause=attack)
    client = ask(living.workspace)
    for path in ("/", "/gates", "/ledger", f"/runs/{living.run}", f"/runs/{living.run}/updates/2"):
        text = client.get(path).text
        assert "{{ 7 * 7 }}" in text
        assert text.count("<script") == 1
        assert "<img" not in text


def test_a_strict_policy_stands_on_every_answer(client: TestClient) -> None:
    for path in ("/", "/gates", "/assets/page.js", "/nothing"):
        headers = client.get(path).headers
        assert headers["content-security-policy"] == POLICY
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "unsafe" not in POLICY
    refused = client.get("/", headers={"host": "evil.example"})
    assert refused.headers["content-security-policy"] == POLICY


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "192.168.1.7:8420", "", "[::2]:8420"])
def test_a_foreign_host_is_refused(client: TestClient, host: str) -> None:
    answer = client.get("/", headers={"host": host})
    assert answer.status_code == 421
    assert "orders" not in answer.text


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:9000", "[::1]:8420", "LOCALHOST"])
def test_its_own_names_are_known_with_any_port(client: TestClient, host: str) -> None:
    assert client.get("/", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "http://127.0.0.1:9",
        "https://127.0.0.1:8420",
        "file://127.0.0.1:8420",
        "//127.0.0.1:8420",
        "127.0.0.1:8420",
        "http://127.0.0.1:8420/",
        "http://[",
        "",
    ],
)
def test_a_foreign_origin_is_refused(client: TestClient, origin: str) -> None:
    for path in ("/", "/live?topics=ledger"):
        answer = client.get(path, headers={"origin": origin})
        assert answer.status_code == 403
        assert answer.headers["content-type"].startswith("text/plain")
    assert client.get("/", headers={"origin": "http://127.0.0.1:8420"}).status_code == 200


def test_another_site_may_link_here_and_not_embed(client: TestClient) -> None:
    embedding = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
    assert client.get("/", headers=embedding).status_code == 403
    following = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert client.get("/", headers=following).status_code == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
def test_nothing_can_be_written(client: TestClient, method: str) -> None:
    assert client.request(method, "/").status_code == 405


@pytest.mark.parametrize(
    "path",
    [
        "/runs/..%2f..%2f..%2fetc%2fpasswd",
        "/runs/%2e%2e",
        "/runs/..%5c..",
        "/runs/../../workspace.json",
        "/runs/control%00",
        "/assets/..%2f..%2fapp.py",
        "/assets/%2e%2e/app.py",
        "/assets/app.py",
        "/runs/%2fetc%2fpasswd/updates/1",
        "/ledger.sqlite",
    ],
)
def test_no_path_leaves_the_workspace(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    assert "root:" not in answer.text


def test_a_run_with_a_path_for_a_name_is_not_followed(living: Any, ask: Callable[..., TestClient]) -> None:
    outside = living.workspace.root.parent / "secret"
    outside.mkdir()
    (outside / "log.txt").write_text("the secret")
    with living.story.ledger() as ledger:
        ledger.plan_run("../../secret", variant="control", seed=9, defines={})
        ledger.start_run("../../secret")
    client = ask(living.workspace)
    for path in ("/", "/runs/..%2f..%2fsecret", "/gates"):
        answer = client.get(path)
        assert answer.status_code in (404, 503)
        assert "the secret" not in answer.text


def test_a_link_that_leads_out_of_the_workspace_is_not_followed(living: Any, ask: Callable[..., TestClient]) -> None:
    secret = living.workspace.root.parent / "secret.txt"
    secret.write_text("the secret")
    living.folder.mkdir(parents=True)
    (living.folder / "log.txt").symlink_to(secret)
    answer = ask(living.workspace).get(f"/runs/{living.run}")
    assert answer.status_code == 503
    assert "the secret" not in answer.text


def test_a_query_of_ten_megabytes_is_refused(client: TestClient) -> None:
    assert asyncio.run(_status_of(client.app, "/rows", b"kind=" + b"x" * 10_000_000)) == 414
    assert asyncio.run(_status_of(client.app, "/rows", b"kind=fixed")) == 200
    assert client.get("/" + "x" * 10_000).status_code == 414


async def _status_of(application: Any, path: str, query: bytes) -> int:
    """Asked as a server asks, since the test's own client refuses to send so much."""
    told: list[dict[str, Any]] = []
    scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": query,
             "headers": [(b"host", b"127.0.0.1")], "http_version": "1.1", "scheme": "http"}  # fmt: skip

    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    async def send(message: dict[str, Any]) -> None:
        told.append(message)

    await application(scope, receive, send)
    return int(told[0]["status"])


@pytest.mark.parametrize(
    "query", ["start=-1", "start=9999999999999999999", "start=²", "kind=nothing", "split=../..", "start=1e9", "%ff=%00"]
)
def test_a_strange_query_is_answered_with_a_page(client: TestClient, query: str) -> None:
    assert client.get(f"/rows?{query}").status_code == 200
    assert client.get(f"/ledger?{query}&before=x").status_code == 200


def test_without_its_token_nothing_is_told(told: Any, ask: Callable[..., TestClient]) -> None:
    client = ask(told.workspace, token=TOKEN)
    for path in ("/", "/rows", "/live?topics=ledger", "/assets/page.js", "/?token=wrong", "/?token="):
        answer = client.get(path)
        assert answer.status_code == 401
        assert "orders" not in answer.text
    assert client.get("/", headers={"authorization": "Bearer wrong"}).status_code == 401
    assert client.get("/", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_the_token_in_the_address_becomes_a_cookie_and_leaves_the_address(
    told: Any, ask: Callable[..., TestClient]
) -> None:
    client = ask(told.workspace, token=TOKEN)
    answer = client.get(f"/rows?kind=fixed&token={TOKEN}")
    assert (answer.status_code, answer.headers["location"]) == (303, "/rows?kind=fixed")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert TOKEN not in cookie
    assert client.get("/rows").status_code == 200


def test_the_token_redirects_to_this_server_alone(told: Any, ask: Callable[..., TestClient]) -> None:
    client = ask(told.workspace, token=TOKEN)
    answer = client.get(f"//evil.example/?token={TOKEN}")
    assert not answer.headers.get("location", "").startswith("//")


def test_an_open_address_needs_a_token_and_a_short_one_is_refused(told: Any) -> None:
    with pytest.raises(TestigoError, match="a token, since others can reach"):
        serve(told.workspace.root, host="0.0.0.0", port=0)
    with pytest.raises(TestigoError, match="16 characters or more"):
        serve(told.workspace.root, port=0, token="short")


def test_an_address_of_another_machine_cannot_be_had(told: Any) -> None:
    with pytest.raises(TestigoError, match="a free port on an address of this machine"):
        serve(told.workspace.root, host="192.0.2.1", port=0, token=TOKEN)


def test_loopback_is_known(told: Any) -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.8.8.8", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "example.org", "localhost.example.org", "")))


def test_the_workspace_is_the_same_after_every_page_was_read(story: Any, ask: Callable[..., TestClient]) -> None:
    def everything(root: Path) -> dict[str, bytes]:
        kept = {path: path for path in root.rglob("*") if path.is_file() and not path.name.startswith("ledger.sqlite")}
        return {str(path): path.read_bytes() for path in kept}

    def events() -> str:
        with sqlite3.connect(story.workspace.ledger_path) as connection:
            return json.dumps(connection.execute("SELECT * FROM events").fetchall())

    before = everything(story.workspace.root), events()
    client = ask(story.workspace)
    for path in ("/", "/gates", "/rows", "/rows?kind=fixed", "/ledger", "/runs/none"):
        client.get(path)
    assert (everything(story.workspace.root), events()) == before


def test_the_page_can_stand_in_a_server_of_ones_own(told: Any) -> None:
    with TestClient(application(told.workspace.root, token=TOKEN), base_url="http://localhost") as client:
        assert client.get("/", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
