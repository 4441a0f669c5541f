"""What changes anything: who may, from where, and that it is a command of Testigo with its words kept as words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from starlette.testclient import TestClient

from testigo.errors import TestigoError
from testigo.ledger import kinds
from testigo.page.actions import ACTIONS, back_to
from testigo.page.guard import MOST_BODY_BYTES
from testigo.page.site import Site

TOKEN = "a-token-of-many-letters"
ORIGIN = {"origin": "http://127.0.0.1:8420"}
BEARER = {"authorization": f"Bearer {TOKEN}"}


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        (ORIGIN, "reason=x", 403),
        ({**BEARER, "origin": "http://evil.example"}, "reason=x", 403),
        ({**BEARER, "origin": "null"}, "reason=x", 403),
        ({"cookie": "stolen=1"}, "reason=x", 403),
        ({**BEARER, **ORIGIN, "sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"}, "reason=x", 403),
        ({**BEARER, "content-type": "application/json"}, "{}", 415),
        (BEARER, "reason=" + "x" * MOST_BODY_BYTES, 413),
    ],
    ids=[
        "no token",
        "foreign origin",
        "no origin of its own",
        "a foreign cookie",
        "from another site",
        "no form",
        "long",
    ],
)
def test_an_action_is_refused(
    told: Any, ask: Callable[..., TestClient], headers: dict[str, str], body: str, status: int
) -> None:
    client = ask(told.workspace, key=TOKEN)
    kind = {"content-type": "application/x-www-form-urlencoded"}
    for name in ACTIONS:
        answer = client.post(f"/actions/{name}", content=body, headers={**kind, **headers})
        assert answer.status_code == status, answer.text


@pytest.mark.parametrize("body", ["&".join(f"f{n}=x" for n in range(30)), "&" * 1000], ids=["30 fields", "nothing"])
def test_a_form_of_too_many_fields_is_no_fault_of_ours(told: Any, ask: Callable[..., TestClient], body: str) -> None:
    kind = {"content-type": "application/x-www-form-urlencoded"}
    answer = ask(told.workspace, key=TOKEN).post("/actions/confirm", content=body, headers={**kind, **BEARER})
    assert answer.status_code == 400
    assert answer.headers["content-type"].startswith("text/plain")


@pytest.mark.parametrize("length", ["\xb2", "9" * 5000, "-1", "1_0"])
def test_a_length_that_is_no_number_of_bytes_is_refused(told: Any, ask: Callable[..., TestClient], length: str) -> None:
    kind = {"content-type": "application/x-www-form-urlencoded", "content-length": length.encode("latin-1")}
    answer = ask(told.workspace, key=TOKEN).post("/actions/confirm", content=b"", headers={**kind, **BEARER})
    assert answer.status_code == 413


def test_the_cookie_lets_in_to_act_from_this_page_alone(told: Any, ask: Callable[..., TestClient]) -> None:
    client = ask(told.workspace, key=TOKEN)
    assert client.get("/").status_code == 200  # reading needs no token here
    assert 'action="/actions/amend"' not in client.get("/ledger").text
    assert client.get(f"/?token={TOKEN}").status_code == 303
    assert 'action="/actions/amend"' in client.get("/ledger").text
    assert client.post("/actions/amend", data={"reason": "x"}).status_code == 403
    assert client.post("/actions/nothing", data={"reason": "x"}, headers=ORIGIN).status_code == 404
    assert client.post("/ledger", data={"reason": "x"}, headers=ORIGIN).status_code == 405


def test_without_a_token_and_a_key_nobody_acts(told: Any, ask: Callable[..., TestClient]) -> None:
    client = ask(told.workspace)
    answer = client.post("/actions/amend", data={"reason": "x"}, headers={**ORIGIN, "authorization": "Bearer None"})
    assert answer.status_code == 403


def test_a_command_that_refuses_is_told_in_four_parts_and_nothing_changes(story: Any, ask: Any) -> None:
    client = ask(story.workspace, token=TOKEN)
    with story.ledger() as ledger:
        before = len(ledger.events())
        (run,) = [run.id for run in ledger.runs() if run.state == "diverged"]
    answer = client.post("/actions/stop", data={"run": run, "reason": "<script>", "by": "x"}, headers=BEARER)
    assert answer.status_code == 400
    for part in ("a run that goes on", f"{run} is diverged", "What to do"):
        assert part in answer.text
    answer = client.post("/actions/stop", data={"run": "--help", "reason": "x"}, headers=BEARER)
    assert (answer.status_code, "a run of this campaign" in answer.text) == (400, True)
    with story.ledger() as ledger:
        assert len(ledger.events()) == before


def test_a_run_that_goes_on_is_stopped_by_the_command(living: Any, ask: Callable[..., TestClient]) -> None:
    client = ask(living.workspace, token=TOKEN)
    form = {"run": living.run, "reason": "--json", "by": "Ada <b>", "back": f"/runs/{living.run}"}
    answer = client.post("/actions/stop", data=form, headers=BEARER)
    assert (answer.status_code, answer.headers["location"]) == (303, f"/runs/{living.run}")
    with living.story.ledger() as ledger:
        (event,) = ledger.events(kinds.RUN_STOP_ASKED)
    assert event.body == {"by": "Ada <b>", "reason": "--json"}
    page = client.get(f"/runs/{living.run}", headers=BEARER).text
    assert "Asked to stop" in page
    assert "/actions/stop" not in page


def test_what_a_form_says_is_one_argument_whatever_it_says(told: Any) -> None:
    site = Site(told.workspace)
    hostile = "--workspace=/tmp\n; rm -rf $HOME \x00" + "x" * 9000
    for name, form in (("amend", {}), ("waive", {"code": "E107"}), ("confirm", {}), ("size", {})):
        arguments = ACTIONS[name].arguments(site, {**form, "reason": hostile, "by": hostile, "gpu": hostile})
        assert [argument for argument in arguments if "rm -rf" in argument] == [arguments[-1]]
        assert arguments[-1].startswith("--")
        assert "\x00" not in arguments[-1]
        assert len(arguments[-1]) < 2100
    for code in ("", "E1", "--x", "E107; rm"):
        with pytest.raises(TestigoError):
            ACTIONS["waive"].arguments(site, {"code": code})


@pytest.mark.parametrize(
    ("back", "place"),
    [
        ("/runs/a?x=1&y=%20", "/runs/a?x=1&y=%20"),
        ("//evil.example", "/"),
        ("https://evil.example", "/"),
        ("javascript:alert(1)", "/"),
        ("/\\evil.example", "/"),
        ("/a\r\nset-cookie: x", "/"),
        ("", "/"),
    ],
)
def test_the_way_back_is_a_path_of_this_server(back: str, place: str) -> None:
    assert back_to({"back": back}) == place
