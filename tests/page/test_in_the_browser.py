"""The page in a real browser, on this machine alone: beside a training that goes on, and each page as people see it.

With TESTIGO_PICTURES=FOLDER the pictures of the documentation are written there.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import served
import whole

from testigo.ledger import Ledger

if TYPE_CHECKING:
    from browser import Browser, Visit

TOKEN = "a-token-of-many-letters"
SETTINGS = {
    "training.updates": 12,
    "training.validate_every": 4,
    "variants": [
        {"name": "long", "set": {"training.updates": 6000, "training.validate_every": 200}, "because": "more"}
    ],
}
NAMES = {1: "run", 3: "update"}
PAGES = ("/", "/runs", "/compare", "/rows", "/samples", "/data", "/gates", "/plan", "/ledger")


def test_a_visit_reaches_no_other_machine_and_says_what_was_asked(browser: Browser) -> None:
    with pytest.raises(AssertionError, match=r"https://example\.org/a\.png"):
        _go_astray(browser)
    with browser.visit(width=390, scheme="dark") as visit:
        visit.page.set_content("<!doctype html><html><title>a</title><img src='data:,'><p>text")
        assert [fault.split(":")[0] for fault in visit.faults()] == ["html-has-lang", "image-alt"]
        assert not visit.is_too_wide()
        assert visit.page.evaluate("() => matchMedia('(prefers-color-scheme: dark)').matches")
    asyncio.run(asyncio.sleep(0))  # the browser leaves the process as it was


def _go_astray(browser: Browser) -> None:
    with browser.visit() as visit:
        visit.page.set_content("<!doctype html><img alt=a src=https://example.org/a.png>")


@dataclass
class Going:
    """A campaign whose second run goes on, and the address of its page."""

    workspace: Path
    run: str
    address: str

    def state(self) -> str:
        with Ledger.open(self.workspace / "ledger.sqlite") as ledger:
            return next((run.state for run in ledger.runs() if run.variant == "long"), "")


@pytest.fixture(scope="module")
def going(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Going]:
    place = whole.make(tmp_path_factory.mktemp("going"), SETTINGS)
    command = [sys.executable, served.__file__, str(place.folder), str(place.workspace)]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as training:
        try:
            run = _begun(place.workspace, training)
            with served.served(str(place.workspace), "--token", TOKEN) as (host, port, _):
                yield Going(place.workspace, run, f"http://{host}:{port}")
        finally:
            training.terminate()


def _begun(workspace: Path, training: subprocess.Popen[bytes]) -> str:
    """The run that goes on, once it has made some updates."""
    while training.poll() is None:
        for path in (workspace / "runs").glob("long-*/steps.jsonl"):
            if len(path.read_text().splitlines()) > 20:
                return path.parent.name
        with pytest.raises(subprocess.TimeoutExpired):
            training.wait(0.3)
    raise AssertionError("the training ended before it was looked at")


def _n_updates(visit: Visit) -> int:
    words = visit.page.locator(".sentence").first.inner_text()
    return int(words.rpartition("update ")[2].partition(" of")[0].replace(",", ""))


def test_beside_a_training_that_goes_on(going: Going, browser: Browser) -> None:
    with browser.visit() as visit:
        page = visit.page
        page.goto(f"{going.address}/?token={TOKEN}")
        assert TOKEN not in page.url
        page.wait_for_function("() => document.querySelector('#live').dataset.state === 'live'")
        page.evaluate("() => { globalThis.before = 1; }")
        first = _n_updates(visit)
        page.wait_for_function(
            "n => Number(/update ([\\d,]+)/.exec(document.querySelector('.sentence').innerText)[1].replace(',', ''))"
            " > n",
            arg=first,
        )
        assert page.evaluate("() => globalThis.before") == 1  # changed in place, not loaded anew

        _find_a_spike(going)
        page.get_by_role("link", name="update 7 and its rows").click()
        assert "T108" in page.locator("#content").inner_text()
        assert page.locator("article.example").count() == len(_rows_of(going, 7))

        page.goto(f"{going.address}/runs")
        for box in page.locator("input[name=run]").all():
            box.check()
        page.get_by_role("button", name="Compare the marked runs").click()
        page.locator(".canvas canvas").nth(1).wait_for()
        assert page.locator(".legend").first.inner_text().split("\n")[:2] == ["control, seed 0", "long, seed 0"]
        page.get_by_label("smoothing").select_option("0.9")
        page.wait_for_url("**smooth=0.9**")
        page.get_by_label("log scale").check()
        page.wait_for_url("**log=1**")
        page.locator(".canvas canvas").nth(1).wait_for()

        page.goto(f"{going.address}/samples")
        page.get_by_role("button", name="Show what the model sees").click()
        frame = page.frame_locator("iframe.framed")
        frame.locator("#samples").wait_for()
        assert "<|im_end|>" in frame.locator("body").inner_text()
        page.get_by_text("Confirm the samples", exact=True).first.click()
        page.get_by_label("Your name").fill("Ada <script>")
        page.get_by_role("button", name="Confirm the samples").click()
        assert "Ada <script>" in page.locator("#content").inner_text()


def _find_a_spike(going: Going) -> None:
    line = {"code": "T108", "name": "spike", "severity": "warn", "phase": "watch", "observed": "the loss jumped",
            "remedy": "look at its rows", "rows": _rows_of(going, 7), "update": 7}  # fmt: skip
    with (going.workspace / "runs" / going.run / "findings.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")


def _rows_of(going: Going, update: int) -> list[str]:
    lines = (going.workspace / "runs" / going.run / "steps.jsonl").read_text().splitlines()
    return next(list(line["row_losses"]) for line in map(json.loads, lines) if line["update"] == update)


def test_a_run_is_stopped_by_who_has_the_token_alone(going: Going, browser: Browser) -> None:
    post = "() => fetch('/actions/stop', {method: 'POST', body: new URLSearchParams({run: 'x'})}).then(a => a.status)"
    with browser.visit() as visit:
        assert visit.page.goto(going.address).status == 401  # type: ignore[union-attr]
        assert visit.page.evaluate(post) == 403
        visit.complaints.clear()  # the browser's own words on 401 and 403
    with browser.visit() as visit:
        page = visit.page
        page.goto(f"{going.address}/runs/{going.run}?token={TOKEN}")
        page.get_by_text("Stop this run", exact=True).first.click()
        page.get_by_label("Why").fill("it has seen enough")
        page.get_by_label("Your name").fill("Ada")
        page.get_by_role("button", name="Stop this run").click()
        page.locator(".standing").get_by_text("stopped-early").wait_for()
        assert "stopped by hand" in page.locator("#content").inner_text()
        page.goto(f"{going.address}/ledger")
        assert "run-stop-asked" in page.locator("#content").inner_text()
    assert going.state() == "stopped-early"


@pytest.fixture(scope="module")
def shown(told: Any) -> Iterator[str]:
    """The address of the page of a whole campaign, which anybody may read."""
    with served.served(str(told.workspace.root)) as (host, port, _):
        yield f"http://{host}:{port}"


def _picture(visit: Visit, name: str) -> None:
    folder = os.environ.get("TESTIGO_PICTURES")
    if folder:
        visit.picture(Path(folder) / f"page-{name}.png")


def _settle(visit: Visit) -> None:
    """Until the pictures that are in view are drawn."""
    visit.page.wait_for_function(
        "() => [...document.querySelectorAll('[data-curves]')]"
        ".every(f => f.getBoundingClientRect().top > innerHeight + 250 || f.querySelector('canvas'))"
    )


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")], ids=["desk", "phone"])
def test_every_page_is_without_serious_faults(shown: str, told: Any, browser: Browser, width: int, scheme: Any) -> None:
    run = next(path.name for path in sorted((told.workspace.root / "runs").iterdir()) if path.name.startswith("rate"))
    with browser.visit(width=width, height=900, scheme=scheme) as visit:
        for path in (*PAGES, f"/runs/{run}", f"/runs/{run}/updates/17"):
            visit.page.goto(f"{shown}{path}")
            _settle(visit)
            if path == "/plan":
                visit.page.get_by_text("being reckoned").wait_for(state="detached")
            assert visit.faults() == [], path
            assert not visit.is_too_wide(), path
            _picture(visit, f"{NAMES.get(path.count('/') - 1, path.strip('/')) or 'overview'}-{scheme}")


def test_the_page_speaks_four_languages_and_keeps_the_choice(shown: str, browser: Browser) -> None:
    with browser.visit() as visit:
        page = visit.page
        page.goto(shown)
        headings = set()
        for name in ("Español", "Português", "Français", "English"):
            page.get_by_role("link", name=name).click()
            page.goto(f"{shown}/plan")
            headings.add((page.locator("html").get_attribute("lang"), page.locator("h1").inner_text()))
            assert visit.faults() == []
        assert len(headings) == 4


def test_the_keyboard_reaches_content_and_pages(shown: str, browser: Browser) -> None:
    with browser.visit() as visit:
        visit.page.goto(shown)
        visit.page.keyboard.press("Tab")
        visit.page.keyboard.press("Enter")
        assert visit.page.evaluate("() => document.activeElement.id") == "content"
        visit.page.keyboard.press("Shift+Tab")
        assert visit.page.evaluate("() => document.activeElement.closest('nav') !== null")


def test_without_script_a_page_still_has_its_pictures_and_words(shown: str, told: Any, browser: Browser) -> None:
    with browser.visit(scripts=False) as visit:
        visit.page.goto(f"{shown}/compare")
        assert visit.page.locator(".drawn svg").count() == 2
        assert visit.page.get_by_role("button", name="Show").count() == 1
