"""The page in a real browser, on this machine alone: beside a training that goes on, and each page as people see it.

With TESTIGO_PICTURES=FOLDER the pictures of the documentation are written there.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import served
import whole
from PIL import Image

from testigo.campaign import Workspace
from testigo.ledger import Ledger

if TYPE_CHECKING:
    from browser import Browser, Visit

DOCUMENT = Path(__file__).parents[2] / "docs" / "page.md"
TOKEN = "a-token-of-many-letters"
SETTINGS = {
    "training.updates": 12,
    "training.validate_every": 4,
    "variants": [
        {"name": "long", "set": {"training.updates": 6000, "training.validate_every": 200}, "because": "more"}
    ],
}
NAMES = {1: "run", 3: "update"}
BESIDE = ("samples-light", "update-light")
"""Pictures of pages that show most beside a real training."""
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


def test_the_documentation_shows_every_page() -> None:
    names = {"overview", "campaigns", "run", "update", *(path.strip("/") for path in PAGES[1:])}
    text = DOCUMENT.read_text(encoding="utf-8")
    assert {name for name in names if f"](images/page-{name}-light.png)" not in text} == set()
    assert all((DOCUMENT.parent / named).is_file() for named in re.findall(r"\]\((images/[^)]+)\)", text))


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
        assert visit.faults() == []
        _picture(visit, "update-light")

        page.goto(f"{going.address}/runs")
        for box in page.locator("input[name=run]").all():
            box.check()
        page.get_by_role("button", name="Compare the marked runs").click()
        page.locator(".canvas canvas").nth(1).wait_for()
        assert page.locator(".legend").first.inner_text().split("\n")[:2] == ["control, seed 0", "long, seed 0"]
        _point_at_half(visit)
        assert "long, seed 0" in _reading(visit)
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
        page.locator("iframe.framed").scroll_into_view_if_needed()
        page.frames[-1].evaluate("() => document.querySelector('#samples').scrollIntoView()")
        _picture(visit, "samples-light")
        page.get_by_text("Confirm the samples", exact=True).first.click()
        page.get_by_label("Your name").fill("Ada <script>")
        page.get_by_role("button", name="Confirm the samples").click()
        assert "Ada <script>" in page.locator("#content").inner_text()


def _point_at_half(visit: Visit) -> None:
    """The pointer over the middle of the first picture, once it is in view."""
    page = visit.page  # a picture that new updates draw again is asked for anew each time
    page.evaluate("() => document.querySelector('[data-curves]').scrollIntoView({block: 'center'})")
    page.wait_for_function("() => document.querySelector('[data-curves] canvas')")
    for attempt in range(50):  # pictures that are drawn meanwhile move it away from under the pointer
        x, y = page.evaluate(
            "() => { const at = document.querySelector('[data-curves] canvas').getBoundingClientRect();"
            " return [at.x + at.width / 2, at.y + at.height / 2]; }"
        )
        page.mouse.move(x + attempt % 2, y)
        page.wait_for_timeout(100)
        if page.locator(".reading:not([hidden])").count():
            return
    raise AssertionError("no value is read under the pointer")


def _reading(visit: Visit) -> list[str]:
    """The lines of the note under the pointer: the place, then name and value of each run."""
    note = visit.page.locator(".reading:not([hidden])").first
    note.wait_for()
    return [line for line in note.inner_text().split("\n") if line]


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


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")], ids=["desk", "phone"])
def test_the_pointer_reads_the_values_of_the_runs_that_have_one_there(
    shown: str, told: Any, browser: Browser, width: int, scheme: Any
) -> None:
    with browser.visit(width=width, scheme=scheme) as visit:
        for query in ("", "?smooth=0.9"):
            visit.page.goto(f"{shown}/compare{query}")
            _point_at_half(visit)
            place, *read = _reading(visit)
            update = int(place.removeprefix("update "))
            assert 20 < update < 40
            names, values = read[::2], read[1::2]
            assert sorted(names) == ["control, seed 0", "control, seed 1", "half-rate, seed 0", "half-rate, seed 1"]
            assert [float(value) for value in values] == sorted(map(float, values), reverse=True)
            own = float(values[names.index("control, seed 0")])
            assert (own == pytest.approx(_loss_of(told, "control", update), rel=1e-3)) is not bool(query)
        line, note = (visit.page.locator(f".{name}").first.bounding_box() for name in ("reading-line", "reading"))
        assert line is not None
        assert note is not None
        assert 0 <= note["x"] <= note["x"] + note["width"] <= width
        assert not note["x"] < line["x"] < note["x"] + note["width"]  # the note does not hide what it reads


def _loss_of(told: Any, variant: str, update: int) -> float:
    (folder, *_) = sorted((told.workspace.root / "runs").glob(f"{variant}-s0-*"))
    lines = map(json.loads, (folder / "steps.jsonl").read_text().splitlines())
    return next(float(line["loss"]) for line in lines if line["update"] == update and "loss" in line)


def test_the_reading_line_stays_under_a_pointer_that_stands_still_while_updates_come(
    living: Any, browser: Browser
) -> None:
    living.step(40)
    with served.served(str(living.workspace.root)) as (host, port, _), browser.visit() as visit:
        visit.page.goto(f"http://{host}:{port}/compare?run={living.run}")
        visit.page.wait_for_function("() => document.querySelector('#live').dataset.state === 'live'")
        _point_at_half(visit)
        assert 15 < int(_reading(visit)[0].removeprefix("update ")) < 25
        visit.page.evaluate("() => { globalThis.canvas = document.querySelector('[data-curves] canvas'); }")
        living.step(40)
        visit.page.wait_for_function(
            "() => { const now = document.querySelector('[data-curves] canvas'); return now && now !== canvas; }"
        )
        assert 35 < int(_reading(visit)[0].removeprefix("update ")) < 45


def test_a_drag_zooms_a_double_click_goes_back_and_a_click_opens_the_rows(
    shown: str, told: Any, browser: Browser
) -> None:
    (folder, *_) = sorted((told.workspace.root / "runs").glob("control-s0-*"))
    with browser.visit() as visit:
        page = visit.page
        page.goto(f"{shown}/runs/{folder.name}")
        _point_at_half(visit)
        whole = int(_reading(visit)[0].removeprefix("update "))
        box = page.locator(".canvas").first.bounding_box()
        assert box is not None
        height = box["y"] + box["height"] / 2
        page.mouse.move(box["x"] + box["width"] * 0.7, height)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.9, height)
        page.mouse.up()
        page.mouse.move(box["x"] + box["width"] / 2, height)
        reads = "n => Math.abs(Number(/update (\\d+)/.exec(document.querySelector('.reading').innerText)?.[1]) - n) < 3"
        page.wait_for_function(reads, arg=whole + 18)
        page.mouse.dblclick(box["x"] + box["width"] / 2, height)
        page.wait_for_function(reads, arg=whole)
        page.mouse.click(box["x"] + box["width"] / 2, height)
        page.wait_for_url(f"**/runs/{folder.name}/updates/*")


def _picture(visit: Visit, name: str) -> None:
    folder = os.environ.get("TESTIGO_PICTURES")
    if folder and f"images/page-{name}.png" in DOCUMENT.read_text(encoding="utf-8"):
        path = Path(folder) / f"page-{name}.png"
        visit.picture(path)
        Image.open(path).convert("RGB").quantize(128).save(path, optimize=True)  # a third of the size, and as clear


def _settle(visit: Visit) -> None:
    """Until the pictures that are in view are drawn."""
    visit.page.wait_for_function(
        "() => [...document.querySelectorAll('[data-curves]')]"
        ".every(f => f.getBoundingClientRect().top > innerHeight + 250 || f.querySelector('canvas'))"
    )


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")], ids=["desk", "phone"])
def test_every_page_is_without_serious_faults_in_light_and_dark(
    shown: str, told: Any, browser: Browser, width: int, scheme: Any
) -> None:
    run = next(path.name for path in sorted((told.workspace.root / "runs").iterdir()) if path.name.startswith("rate"))
    with browser.visit(width=width, height=900, scheme=scheme) as visit:
        for path in (*PAGES, f"/runs/{run}", f"/runs/{run}/updates/17"):
            _look_at(visit, f"{shown}{path}")
            name = f"{NAMES.get(path.count('/') - 1, path.strip('/')) or 'overview'}-{scheme}"
            if name not in BESIDE:
                _picture(visit, name)
            visit.page.evaluate("() => document.querySelectorAll('details').forEach(one => { one.open = true; })")
            for other in ("dark", "light"):
                visit.page.emulate_media(color_scheme=other)
                assert visit.faults() == [], (path, other)
            visit.page.emulate_media(color_scheme=scheme)
            assert not visit.is_too_wide(), path


def test_a_campaign_in_which_nothing_happened_and_the_list_of_campaigns_are_without_serious_faults(
    told: Any, making: Any, browser: Browser, tmp_path: Path
) -> None:
    new = Workspace(tmp_path / "new.testigo").create(making.write_campaign(tmp_path, n_rows=60))
    with served.served(str(told.workspace.root), str(new.root)) as (host, port, _), browser.visit(width=390) as visit:
        for path in ("/", *(f"/c/new{path}" for path in PAGES)):
            _look_at(visit, f"http://{host}:{port}{path}")
            assert visit.faults() == [], path
            assert not visit.is_too_wide(), path
        visit.page.set_viewport_size({"width": 1280, "height": 900})
        _look_at(visit, f"http://{host}:{port}/")
        assert visit.page.get_by_role("link", name="orders").count() == 2
        _picture(visit, "campaigns-light")


def _look_at(visit: Visit, address: str) -> None:
    answer = visit.page.goto(address)
    assert answer is not None
    assert answer.status == 200
    _settle(visit)
    if address.endswith("/plan"):
        visit.page.get_by_text("being reckoned").wait_for(state="detached")


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


def test_longer_words_of_other_languages_fit_on_a_phone(shown: str, told: Any, browser: Browser) -> None:
    run = next(path.name for path in sorted((told.workspace.root / "runs").iterdir()) if path.name.startswith("rate"))
    for language in ("es", "pt", "fr"):
        with browser.visit(width=390, scripts=False) as visit:
            for path in (f"/?language={language}", *PAGES[1:], f"/runs/{run}", f"/runs/{run}/updates/17"):
                visit.page.goto(f"{shown}{path}")
                assert visit.page.locator("html").get_attribute("lang") == language
                assert not visit.is_too_wide(), (language, path)


def test_hostile_rows_outputs_and_names_run_nothing_in_the_browser(shown: str, living: Any, browser: Browser) -> None:
    attack = "<script>alert(1)</script><img src=x onerror=alert(2)><a href='javascript:alert(3)'>x</a>"
    living.step(6, row_losses={attack: 1.0})
    living.find(code=attack, name=attack, observed=attack, remedy=attack, rows=[attack])
    (living.folder / "log.txt").write_text(attack)
    with living.story.ledger() as ledger:
        ledger.plan_run("hostile", variant=attack, seed=0, defines={})
        ledger.start_run("hostile", pid=1)
    (living.workspace.run("hostile")).mkdir(parents=True)
    (living.workspace.run("hostile") / "steps.jsonl").write_text((living.folder / "steps.jsonl").read_text())
    own = [f"/runs/{living.run}", f"/runs/{living.run}/updates/6", "/gates", "/ledger", "/compare"]
    with served.served(str(living.workspace.root)) as (host, port, _), browser.visit() as visit:
        alerts: list[str] = []
        visit.page.on("dialog", lambda dialog: (alerts.append(dialog.message), dialog.dismiss()))
        for address in (f"{shown}/rows?kind=broken", *(f"http://{host}:{port}{path}" for path in own)):
            _look_at(visit, address)
            assert "alert(" in visit.page.locator("#content").inner_text()
            assert visit.page.locator("#content script, #content img, [href^='javascript']").count() == 0
        _point_at_half(visit)
        assert any(attack in line for line in _reading(visit))
        assert alerts == []


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
