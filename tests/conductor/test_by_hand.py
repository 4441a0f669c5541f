"""What a person decides while a campaign goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tiny import updates, validations
from whole import Place
from whole import testigo as command

from testigo.campaign.starting import new_campaign
from testigo.conductor.opening import at_rest
from testigo.disk import read_lines
from testigo.ledger import Ledger, kinds
from testigo.training.by_hand import ask_to_stop

if TYPE_CHECKING:
    from tiny import Tiny


def test_a_run_that_is_asked_to_stop_validates_saves_and_ends_after_its_update(tiny: Tiny, tmp_path: Path) -> None:
    run = tiny.session(tmp_path, {"training.updates": 9, "training.validate_every": 5})
    step = run.step

    def and_then_ask(update: int) -> dict[str, object]:
        if update == 3:
            ask_to_stop(run.folder, by="Ada", reason="it stands still")
        return step(update)

    run.step = and_then_ask  # type: ignore[method-assign]
    outcome = run.run()
    assert (outcome.state, outcome.cause) == ("stopped-early", "stopped by hand")
    assert [line["update"] for line in updates(run.folder)] == [1, 2, 3]
    assert [line["update"] for line in validations(run.folder)] == [3]
    assert run.saved_update == run.progress.best_update == 3


def test_a_request_that_comes_with_the_last_update_changes_nothing(tiny: Tiny, tmp_path: Path) -> None:
    run = tiny.session(tmp_path, {"training.updates": 1, "training.validate_every": 1})
    ask_to_stop(run.folder, by="Ada", reason="")
    assert run.run().state == "completed"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A workspace whose ledger knows a run that waits, one that goes on and one that ended."""
    made = Place(tmp_path)
    new_campaign(tmp_path / "new")
    for path in (tmp_path / "new").iterdir():
        path.rename(tmp_path / path.name)
    name = json.dumps({"campaign": "orders", "format": 1, "path": str(made.file)})
    made.workspace.mkdir()
    (made.workspace / "workspace.json").write_text(name)
    with Ledger.open(made.workspace / "ledger.sqlite", create=True) as ledger:
        for seed, run in enumerate(("waits", "goes", "ended")):
            ledger.plan_run(run, variant="control", seed=seed, defines={})
        for run in ("goes", "ended"):
            ledger.start_run(run, pid=1)
        ledger.end_run("ended", state="completed", updates=1, seconds=1.0)
    return made


def _events(place: Place, kind: str) -> list[dict[str, object]]:
    with Ledger.open(place.workspace / "ledger.sqlite") as ledger:
        return [{"run": event.run, **event.body} for event in ledger.events(kind)]


def test_testigo_stop_is_an_event_and_a_request_in_the_runs_folder(place: Place) -> None:
    answer = command("stop", str(place.workspace), "goes", "--because", "flat", "--by", "Ada", "--json")
    assert (answer.code, answer.document["run"]) == (0, "goes")
    assert _events(place, kinds.RUN_STOP_ASKED) == [{"run": "goes", "by": "Ada", "reason": "flat"}]
    assert read_lines(place.workspace / "runs" / "goes" / "stop-asked.json") == [{"by": "Ada", "reason": "flat"}]


@pytest.mark.parametrize(
    ("run", "found"), [("ended", "ended is completed"), ("../x", "no run '../x'")], ids=["ended", "unknown"]
)
def test_testigo_stop_refuses_what_does_not_go_on(place: Place, run: str, found: str) -> None:
    answer = command("stop", str(place.workspace), run, "--json")
    assert (answer.code, answer.problem["found"]) == (2, found)
    assert "waits, goes" in answer.problem["action"]
    assert _events(place, kinds.RUN_STOP_ASKED) == []


def test_testigo_waive_writes_the_file_and_the_ledger(place: Place) -> None:
    for options, why in (
        (("E107", "--because", "so"), "a reason in words"),
        (("E999", "--because", "known here"), "the code of a rule that stops a campaign, such as E107"),
        (("T104", "--because", "known here"), "the code of a rule that stops a campaign, such as E107"),
    ):
        answer = command("waive", str(place.workspace), *options, "--json")
        assert (answer.code, answer.problem["expected"]) == (2, why)
    assert command("waive", str(place.workspace), "e107", "--because", "known here", "--json").code == 0
    assert _events(place, kinds.GATE_WAIVED) == [{"run": None, "code": "E107", "reason": "known here"}]
    assert 'E107: "known here"' in place.file.read_text()


def test_testigo_amend_registers_a_change_with_its_reason(place: Place) -> None:
    answer = command("amend", str(place.workspace), "--because", "known here", "--json")
    assert (answer.code, answer.problem["expected"]) == (2, "a campaign that was registered")
    from testigo.campaign import load
    from testigo.campaign.registration import register

    campaign = load(place.file)
    with Ledger.open(place.workspace / "ledger.sqlite") as ledger:
        register(campaign, ledger, contents={"the corpus": "c" * 64, "the base": "b" * 64}, runs=["goes"])
    text = place.file.read_text()
    place.file.write_text(text.replace("learning_rate: 1e-3", "learning_rate: 5e-4"))
    assert place.file.read_text() != text
    with at_rest(place.workspace):  # as `testigo run` holds it
        answer = command("amend", str(place.workspace), "--because", "too fast", "--json")
    assert (answer.code, answer.problem["expected"]) == (2, "no other testigo at work in this workspace")
    assert "stop it first" in answer.problem["action"]
    assert _events(place, kinds.CAMPAIGN_AMENDED) == []
    answer = command("amend", str(place.workspace), "--because", "too fast", "--json")
    assert (answer.code, list(answer.document["changes"])) == (0, ["training.learning_rate"])
    (event,) = _events(place, kinds.CAMPAIGN_AMENDED)
    assert event["reason"] == "too fast"
    assert all(str(run).startswith("control-s") for run in event["runs"])  # type: ignore[attr-defined]
    assert command("amend", str(place.workspace), "--because", "once again", "--json").document["state"] == "unchanged"
