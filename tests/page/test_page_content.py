"""What each page says, of a campaign that has ended and of one that goes on."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from html import unescape
from html.parser import HTMLParser
from typing import Any

import pytest
from starlette.testclient import TestClient

from testigo.ledger import kinds
from testigo.page.planning import plan_page
from testigo.page.site import Site
from testigo.rental import held_in, of_all

_VOID = {"meta", "link", "br", "wbr", "img", "input", "hr", "path", "circle", "line", "rect", "use"}


class Tags(HTMLParser):
    """Every element with its attributes, and the elements that were never closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag


def words_of(text: str) -> str:
    """The page's words, without its markup."""
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", text)))


def paths(client: TestClient, story: Any) -> list[str]:
    with story.ledger() as ledger:
        runs = [run.id for run in ledger.runs()]
    fixed = ["/", "/gates", "/rows", "/rows?kind=fixed&start=20", "/rows?kind=both_right", "/ledger", "/nothing"]
    fixed += ["/runs", "/runs?text=half&sort=loss&down=1", "/samples", "/data", "/compare"]
    fixed += ["/compare?axis=tokens&smooth=0.9&log=1&what=memory&what=loss"]
    return [*fixed, *(f"/runs/{run}" for run in runs), f"/runs/{runs[-1]}/updates/17"]


def test_the_overview_tells_question_conclusion_runs_and_causes(client: TestClient) -> None:
    text = words_of(client.get("/").text)
    assert "Does a rank-16 adapter raise exactly right orders" in text
    assert "Improvement shown" in text
    assert "the loss of update 17 is not finite" in text
    assert "diverged" in text
    assert "T101 · non finite" in text
    assert "0.88 EUR" in text
    assert "5 of 6 ended" in text


def test_a_comparison_is_not_shown_under_a_promise_that_it_was_not_judged_by(
    story: Any, ask: Callable[..., TestClient]
) -> None:
    assert "Improvement shown" in words_of(ask(story.workspace).get("/").text)
    with story.ledger() as ledger:
        freeze = [event for event in ledger.events() if event.kind in kinds.FREEZES][-1]
        hypothesis = {**freeze.body["frozen"]["hypothesis"], "alpha": 0.01}
        frozen = {**freeze.body["frozen"], "hypothesis": hypothesis}
        ledger.append(kinds.CAMPAIGN_AMENDED, {**freeze.body, "frozen": frozen, "reason": "a stricter level"})
    client = ask(story.workspace)
    for path in ("/", "/compare", "/rows"):
        assert "Improvement shown" not in words_of(client.get(path).text), path


def test_a_run_that_goes_on_is_told_with_its_progress_and_the_time_that_is_left(
    living: Any, ask: Callable[..., TestClient]
) -> None:
    client = ask(living.workspace)
    living.step(20)
    text = words_of(client.get("/").text)
    assert "Training control, seed 0: update 20 of 60." in text
    assert "20 / 60" in text
    assert "running" in text
    # 340 updates of six runs at half a second, 36 validations at the pilot's 31 s less a third of a run's six,
    # six evaluations at the baseline's 41.2 s
    left = 340 * 0.5 + (36 - 2) * 31.0 + 6 * 41.2
    assert f"Remaining, at most {int(left // 60)} min {round(left) % 60:02d} s from the runs' own updates" in text


def test_the_plan_stands_beside_the_same_real_times_as_the_command_tells(
    story: Any, making: Any, ask: Callable[..., TestClient]
) -> None:
    with story.ledger() as ledger:
        held = held_in(story.workspace.root, story.campaign, ledger.events())
    view = plan_page(Site(story.workspace))
    assert [(one.name, one.planned, one.real) for one in view.pieces] == [
        (one.name, one.planned_seconds, one.real_seconds) for one in held
    ]
    assert view.after_the_pilot == of_all(held)
    assert of_all(held) is not None
    assert "what was done after pilot and baseline" in words_of(ask(story.workspace).get("/plan").text)


def test_what_a_run_took_so_far_counts_in_no_total(living: Any) -> None:
    living.step(20)
    view = plan_page(Site(living.workspace))
    (going,) = [one for one in view.pieces if not one.ended]
    assert going.name == "control, seed 0"
    assert going.real
    assert view.after_the_pilot is None


def test_before_anything_was_timed_the_remaining_time_is_not_known(
    making: Any, tmp_path: Any, ask: Callable[..., TestClient]
) -> None:
    story = making.begin(tmp_path, making.write_campaign(tmp_path, n_rows=60))
    text = words_of(ask(story.workspace).get("/").text)
    assert "Remaining, at most not known no update was timed yet" in text


def test_a_run_whose_process_is_gone_is_told_as_interrupted(living: Any, ask: Callable[..., TestClient]) -> None:
    client = ask(living.workspace)
    assert "running" in words_of(client.get(f"/runs/{living.run}").text)
    with living.story.ledger() as ledger:
        ledger.end_run(living.run, state="interrupted")
        child = os.fork()
        if not child:
            os._exit(0)
        ledger.start_run(living.run, pid=child)
        os.waitpid(child, 0)
    text = words_of(client.get(f"/runs/{living.run}").text)
    assert "interrupted" in text
    assert "its process is gone" in text


def test_the_baseline_the_pilot_and_an_evaluation_tell_how_far_they_are(
    making: Any, tmp_path: Any, ask: Callable[..., TestClient]
) -> None:
    story = making.begin(tmp_path, making.write_campaign(tmp_path, n_rows=60))
    client = ask(story.workspace)
    making.make_corpus(story)
    folder = story.workspace.baseline("b" * 12) / "predictions"
    folder.mkdir(parents=True)
    (folder / "progress.json").write_text('{"done": 8, "of": 12}')
    assert "Evaluating the base: 8 of 12 rows." in words_of(client.get("/").text)
    (folder / "validation.jsonl").write_text("")
    pilot = story.workspace.pilot("p" * 12)
    pilot.mkdir(parents=True)
    (pilot / "phases.json").write_text('{"phases": [], "now": "backward", "of": ["data", "backward"]}')
    assert "The pilot goes through its phases: backward." in words_of(client.get("/").text)
    assert "The pilot goes on: backward" in words_of(client.get("/gates").text)


def test_a_run_is_drawn_with_its_findings_pinned_and_its_log(living: Any, ask: Callable[..., TestClient]) -> None:
    client = ask(living.workspace)
    living.step(10)
    living.validate()
    living.find()
    (living.folder / "log.txt").write_text("loading\n\x1b[31m10%\r100%\x1b[0m\nthe last line\n")
    text = client.get(f"/runs/{living.run}").text
    for title in ("Training loss", "Validation loss", "Learning rate", "Gradient norm", "Time of an update", "Memory"):
        assert f"<h3>{title}</h3>" in text
    assert text.count(">T106</text>") == 7
    assert f"/runs/{living.run}/updates/10" in text
    assert "loading\n100%\nthe last line" in text


def test_the_rows_of_an_update_stand_with_their_losses_and_texts(living: Any, ask: Callable[..., TestClient]) -> None:
    from testigo.corpus import open_corpus

    train = open_corpus(next(living.workspace.root.glob("corpus/*"))).rows("train")
    living.step(3, row_losses={train[0].id: 0.25, train[1].id: 7.25})
    client = ask(living.workspace)
    text = client.get(f"/runs/{living.run}/updates/2").text
    assert text.index("7.25 nats") < text.index("0.250 nats")
    assert train[1].fields["order"]["city"] in words_of(text)
    assert client.get(f"/runs/{living.run}/updates/4").status_code == 404


def test_rows_are_paged_and_marked(client: TestClient, told: Any) -> None:
    first = client.get("/rows?kind=fixed")
    assert first.text.count('<article class="example">') == 20
    assert "<mark>" in first.text
    after = re.search(r'rel="next" href="([^"]+)"', first.text)
    assert after is not None
    second = client.get(after.group(1).replace("&amp;", "&"))
    rows = re.findall(r'<h2 class="row">([^ ]+)', first.text), re.findall(r'<h2 class="row">([^ ]+)', second.text)
    assert rows[1]
    assert not set(rows[0]) & set(rows[1])


def test_the_opened_test_is_shown_without_its_prompts(story: Any, making: Any, ask: Callable[..., TestClient]) -> None:
    client = ask(story.workspace)
    assert "/rows?split=test" not in client.get("/rows").text
    making.open_test(story)
    text = client.get("/rows?kind=fixed").text
    assert "the sealed rows are not read for this page" in text
    assert "/rows?split=validation" in text


def test_the_ledger_is_shown_newest_first_and_a_broken_chain_is_said(
    story: Any, ask: Callable[..., TestClient]
) -> None:
    client = ask(story.workspace)
    text = client.get("/ledger").text
    numbers = [int(number) for number in re.findall(r'class="number">(\d+)<', text)]
    assert numbers == sorted(numbers, reverse=True)
    assert "The chain of digests is whole." in text
    assert "The baseline often writes a sentence before the JSON." in text
    only = client.get(f"/ledger?kind={kinds.NOTE}").text
    with story.ledger() as ledger:
        n_notes = sum(event.kind == kinds.NOTE for event in ledger.events())
    assert only.count('<article class="event">') == n_notes < len(numbers)
    head = story.workspace.root / "ledger.head"
    head.write_text(head.read_text().replace('"events": ', '"events": 9'))
    assert "The chain of digests is broken:" in client.get("/ledger").text


def test_a_workspace_in_which_nothing_happened_is_shown(
    making: Any, tmp_path: Any, ask: Callable[..., TestClient]
) -> None:
    from testigo.campaign import Workspace

    campaign = making.write_campaign(tmp_path, n_rows=60)
    client = ask(Workspace(tmp_path / "new.testigo").create(campaign))
    for path in ("/", "/gates", "/rows", "/ledger"):
        assert client.get(path).status_code == 200
    assert "No pilot was run." in client.get("/gates").text


def test_of_very_many_runs_the_latest_are_listed_and_the_others_are_one_click_away(
    making: Any, tmp_path: Any, ask: Callable[..., TestClient]
) -> None:
    story = making.begin(tmp_path, making.write_campaign(tmp_path, n_rows=60))
    with story.ledger() as ledger:
        for number in range(130):
            ledger.plan_run(f"run-{number:03d}", variant="control", seed=number, defines={})
        ledger.start_run("run-000", pid=os.getpid())
        ledger.start_run("run-001", pid=os.getpid())
        ledger.end_run("run-001", state="completed", updates=60, seconds=9.0)
    client = ask(story.workspace)
    first, *every = (
        set(re.findall(r'href="/runs/(run-\d+)"', client.get(path).text)) for path in ("/", "/runs", "/runs?start=100")
    )
    assert first == {"run-000", *(f"run-{number:03d}" for number in range(30, 130))}
    assert every[0] | every[1] == {f"run-{number:03d}" for number in range(130)}


def test_a_campaign_file_that_is_gone_leaves_what_the_ledger_knows(story: Any, ask: Callable[..., TestClient]) -> None:
    marker = story.workspace.root / "workspace.json"
    marker.write_text(marker.read_text().replace("campaign.yaml", "gone.yaml"))
    text = words_of(ask(story.workspace).get("/").text)
    assert "5 of 5 ended" in text
    assert "the campaign file cannot be read" not in text  # everything of the ledger has ended


def test_a_ledger_that_cannot_be_read_is_said_in_four_parts(living: Any, ask: Callable[..., TestClient]) -> None:
    living.workspace.ledger_path.write_bytes(b"not a database" * 100)
    answer = ask(living.workspace).get("/")
    assert answer.status_code == 503
    for part in ("Where", "Expected", "Found", "What to do", "a ledger that Testigo made"):
        assert part in answer.text


def test_every_page_is_well_formed_and_needs_nothing_from_elsewhere(client: TestClient, told: Any) -> None:
    for path in paths(client, told):
        text = client.get(path).text
        tags = Tags(text.replace("<!doctype html>", ""))
        assert tags.open == []
        for tag, attributes in tags.found:
            assert "style" not in attributes, (path, tag, attributes)
            assert (attributes.get("width") or "0").isdigit(), (path, tag, attributes)
            assert not [name for name in attributes if name.startswith("on")], (path, tag)
            for name in ("src", "href", "action"):
                assert (attributes.get(name) or "/").startswith(("/", "#")), (path, tag, attributes)
        scripts = [attributes for tag, attributes in tags.found if tag == "script"]
        assert [attributes["src"] for attributes in scripts] == [f"/assets/page.js?v={digest(client)}"]
        ids = [attributes["id"] for _, attributes in tags.found if attributes.get("id")]
        assert len(ids) == len(set(ids)), path


def digest(client: TestClient) -> str:
    import hashlib

    return hashlib.sha256(client.get("/assets/page.js").content).hexdigest()[:12]


def test_the_parts_of_a_fragment_are_those_of_the_page(client: TestClient, told: Any) -> None:
    for path in paths(client, told):
        whole, part = client.get(path).text, client.get(path, headers={"testigo-fragment": "1"}).text
        assert "<html" not in part
        names = re.findall(r'data-part="(\w+)"', part)
        assert names
        assert len(names) == len(set(names))
        assert names == re.findall(r'data-part="(\w+)"', whole)
        assert part.strip() in whole or "data-curves=" in part  # a script draws its pictures itself


@pytest.mark.parametrize("name", ["page.js", "page.css", "report.css", "icon.svg"])
def test_assets_are_cached_by_their_digest(client: TestClient, name: str) -> None:
    address = re.search(rf"/assets/{name}\?v=\w+", client.get("/").text)
    assert address is not None
    assert "immutable" in client.get(address.group(0)).headers["cache-control"]
    assert client.get(f"/assets/{name}?v=old").headers["cache-control"] == "no-cache"


def test_a_note_stands_beside_the_run_and_the_gate_that_it_speaks_of(
    story: Any, ask: Callable[..., TestClient]
) -> None:
    with story.ledger() as ledger:
        run = ledger.runs()[0].id
        ledger.append(kinds.NOTE, {"text": "this run began after a restart"}, run=run)
        ledger.append(kinds.NOTE, {"text": "the emoji are known", "gate": "D112"})
    client = ask(story.workspace)
    assert "this run began after a restart" in words_of(client.get(f"/runs/{run}").text)
    assert "the emoji are known" in words_of(client.get("/gates").text)
