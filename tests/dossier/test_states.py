"""What the report says when something is missing or went wrong."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from testigo.campaign import planned_runs
from testigo.dossier import Record, gather, read_record, verify_dossier
from testigo.dossier.card import model_card
from testigo.dossier.conclusion import badge, false_alarm, limits, sentence
from testigo.dossier.corpus_facts import samples_confirmed
from testigo.dossier.record import Opening
from testigo.dossier.report import html
from testigo.ledger import Event, kinds

STOP = {
    "code": "D103",
    "name": "turn-end-not-learned",
    "severity": "stop",
    "phase": "data",
    "observed": "in 72 of 72 rows the turn's end is not supervised",
    "remedy": "supervise the turn's end",
    "rows": [f"o{i:03d}" for i in range(60)],
}


def all_limits(record: Record) -> str:
    return "\n".join(limit.text for limit in limits(record))


def test_a_campaign_that_did_nothing_yet_has_a_report_that_says_so(new_story: Callable[..., Any]) -> None:
    record = read_record(new_story().write())
    assert badge(record).words == "No comparison"
    assert [part.part for part in record.missing] == ["data", "baseline", "pilot", "runs", "comparison", "adapter"]
    assert verify_dossier(new_story().workspace.dossier).ok


def test_a_gate_that_stopped_the_campaign_is_the_verdict(new_story: Callable[..., Any], making: Any) -> None:
    story = new_story()
    making.make_baseline(story, making.make_corpus(story))
    making.make_pilot(story, [STOP])
    folder = story.write()
    record = read_record(folder)
    assert badge(record).words == "Stopped by a gate"
    assert "D103" in sentence(record)
    page = (folder / "index.html").read_text(encoding="utf-8")
    assert "in 72 of 72 rows the turn&#39;s end is not supervised" in page
    assert "and 40 more" in page
    assert "exact_match before" in page
    assert verify_dossier(folder).ok


def test_a_pilot_that_did_not_finish_is_not_called_passed_nor_failed(
    new_story: Callable[..., Any], making: Any
) -> None:
    story = new_story()
    making.make_corpus(story)
    making.make_pilot(story)
    next(story.workspace.root.glob("pilot/*/findings.json")).unlink()
    folder = story.write()
    record = read_record(folder)
    assert "it did not finish" in all_limits(record)
    page = (folder / "index.html").read_text(encoding="utf-8")
    assert "The pilot did not finish." in page
    assert "the 8 longest rows" in page


def test_a_campaign_whose_only_run_diverged_names_run_and_cause(new_story: Callable[..., Any], making: Any) -> None:
    story = new_story()
    corpus = making.make_corpus(story)
    making.make_baseline(story, corpus)
    making.make_pilot(story)
    name = making.make_run(story, corpus, planned_runs(story.campaign)[-1], ends="diverged")
    record = read_record(story.write())
    assert badge(record).words == "No comparison"
    assert f"{name} diverged (the loss of update 17 is not finite" in sentence(record)
    assert record.runs[0].curve is not None
    assert record.runs[0].curve.losses[-1] is None
    assert record.runs[0].curve.n_not_finite == 1


def test_an_interrupted_run_and_torn_files_still_give_a_report(new_story: Callable[..., Any], making: Any) -> None:
    story = new_story()
    corpus = making.make_corpus(story)
    planned = planned_runs(story.campaign)[0]
    name = making.make_run(story, corpus, planned)
    folder = story.workspace.run(name)
    with (folder / "steps.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"update": 61, "loss": 0.')
    (folder / "result.json").write_text('{"state": "comp', encoding="utf-8")
    with story.ledger() as ledger:
        ledger.plan_run("control-s7-0000000000", variant="control", seed=7, defines={})
        ledger.start_run("control-s7-0000000000")
        ledger.end_run("control-s7-0000000000", state="interrupted", cause="signal 15", updates=3, seconds=20.0)
    record = read_record(story.write())
    assert [(run.state, run.updates) for run in record.runs] == [("completed", 60), ("interrupted", 3)]
    assert record.runs[0].curve is not None
    assert record.runs[0].curve.updates[-1] == 60
    assert record.runs[1].curve is None
    assert "1 of 2 runs did not finish: control-s7-0000000000 interrupted" in all_limits(record)


def test_a_run_declared_invalid_stays_with_its_reason(story: Any) -> None:
    with story.ledger() as ledger:
        name = ledger.runs()[0].id
        ledger.invalidate_run(name, reason="the wrong schema was used")
    folder = story.write()
    run = read_record(folder).runs[0]
    assert run.state == "invalid"
    assert run.invalid_because == "the wrong schema was used (it was completed)"
    assert "the wrong schema was used" in (folder / "index.html").read_text(encoding="utf-8")


def test_statistics_that_do_not_follow_from_the_rows_are_not_to_be_relied_on(story: Any) -> None:
    path = story.workspace.comparison_path
    comparison = json.loads(path.read_text(encoding="utf-8"))
    comparison["improvement"]["difference"] += 0.05
    path.write_text(json.dumps(comparison), encoding="utf-8")
    folder = story.write()
    record = read_record(folder)
    assert badge(record).words == "Not to be relied on"
    assert "improvement.difference: claimed" in sentence(record)
    assert not verify_dossier(folder).ok


def test_without_the_predictions_the_report_says_that_nothing_can_be_recomputed(story: Any) -> None:
    record = read_record(story.workspace.dossier)
    assert record.comparison is not None
    shutil.rmtree(story.workspace.run(record.comparison.run) / "predictions")
    record = read_record(story.write())
    assert record.comparison is not None
    assert record.comparison.recomputed is None
    assert "recomputation" in [part.part for part in record.missing]
    assert record.examples == ()


def test_a_broken_chain_is_the_first_thing_that_the_report_says(story: Any) -> None:
    with sqlite3.connect(story.workspace.ledger_path) as connection:
        triggers = connection.execute("select name from sqlite_master where type = 'trigger'").fetchall()
        table = connection.execute("select name from sqlite_master where type = 'table' order by name").fetchall()
        for (name,) in triggers:
            connection.execute(f"drop trigger {name}")
        assert any(name == "events" for (name,) in table)
        connection.execute(
            "update events set body = replace(body, 'sentence before', 'word before') where kind = 'note'"
        )
    connection.close()
    record = read_record(story.write())
    assert record.ledger.faults
    assert badge(record).words == "Not to be relied on"
    assert "chain is broken" in sentence(record)


def test_once_the_test_was_opened_it_decides(story: Any, making: Any) -> None:
    making.open_test(story)
    folder = story.write()
    record = read_record(folder)
    assert record.comparison is not None
    assert record.on_validation is not None
    assert (record.comparison.split, record.on_validation.split) == ("test", "validation")
    assert record.comparison.recomputed is True
    assert record.comparison.statistics["improvement"]["n"] == record.n_baseline == 80
    assert all(example.prompt == "" and example.target == "" for example in record.examples)
    assert "come from the validation rows" not in all_limits(record)
    page = (folder / "index.html").read_text(encoding="utf-8")
    assert "the control is final" in page
    assert "before the test was opened" in page
    assert "sealed rows were not read again" in page
    assert verify_dossier(folder).ok


def test_each_opening_of_the_test_weakens_the_conclusion(told: Any) -> None:
    record = read_record(told.workspace.dossier)
    once = replace(record, openings=(Opening(9, "2026-11-30T10:00:00+00:00", "the end"),))
    assert false_alarm(once) is None
    assert "has not been opened" not in all_limits(once)
    often = replace(record, openings=once.openings * 3)
    assert false_alarm(often) == pytest.approx(0.15)
    assert "may have grown from 5.0 % to 15.0 %" in all_limits(often)
    assert limits(often)[0].grave
    assert "Sealed test opened" in html(often)


def _with_verdicts(record: Record, improvement: str, *guards: str) -> Record:
    assert record.comparison is not None
    statistics = json.loads(json.dumps(record.comparison.statistics))
    statistics["improvement"]["verdict"] = improvement
    for guard, verdict in zip(statistics["guards"], guards, strict=True):
        guard["verdict"] = verdict
    return replace(record, comparison=replace(record.comparison, statistics=statistics))


@pytest.mark.parametrize(
    ("improvement", "guards", "tone", "words"),
    [
        ("shown", ("kept", "kept"), "good", "Improvement shown"),
        ("shown", ("kept", "broken"), "bad", "Improved, but a guard is broken"),
        ("shown", ("undecidable", "kept"), "open", "Improved, a guard is undecided"),
        ("refuted", ("kept", "kept"), "bad", "Improvement refuted"),
        ("not decided", ("kept", "kept"), "open", "Not decided"),
        ("a new word", ("kept", "kept"), "open", "Not decided"),
        ("shown", ("a new word", "kept"), "open", "Improved, a guard is undecided"),
    ],
)
def test_the_badge_is_green_only_when_all_is_shown_and_kept(
    told: Any, improvement: str, guards: tuple[str, str], tone: str, words: str
) -> None:
    record = _with_verdicts(read_record(told.workspace.dossier), improvement, *guards)
    assert (badge(record).tone, badge(record).words) == (tone, words)
    assert f'class="verdict {tone}"' in html(record)


def test_what_is_not_decided_says_what_could_have_been_seen(told: Any) -> None:
    record = read_record(told.workspace.dossier)
    assert "in four cases of five" not in all_limits(record)
    assert "in four cases of five" in all_limits(_with_verdicts(record, "not decided", "kept", "kept"))


def test_a_campaign_file_changed_after_registration_without_amendment_is_grave(told: Any) -> None:
    record = read_record(told.workspace.dossier)
    changed = replace(record, amendments=(), plan=replace(record.plan, identity="0" * 64))
    assert "not the one that was registered" in limits(changed)[0].text
    assert "not the one that was registered" not in all_limits(replace(record, amendments=()))


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("en", "no valid run of the control is there: control-s0-"),
        ("es", "no hay ninguna ejecución válida del control: control-s0-"),
        ("pt", "não há nenhuma execução válida do controle: control-s0-"),
        ("fr", "il n’y a aucune exécution valide du témoin : control-s0-"),
    ],
)
def test_no_conclusion_comes_from_a_control_that_is_invalid(story: Any, language: str, words: str) -> None:
    with story.ledger() as ledger:
        for one in ledger.runs():
            if one.variant == "control":
                ledger.invalidate_run(one.id, reason="it read the rows of May")
        record = gather(story.workspace, story.campaign, ledger)
    assert (record.comparison, record.on_validation, record.examples) == (None, None, ())
    said = replace(record, plan=replace(record.plan, language=language))
    page, card = html(said), model_card(said)
    for text in (page, card.replace("\\", "")):
        assert words in " ".join(text.split())
        assert "it read the rows of May" in text
    assert "model-index" not in card
    assert "Improvement shown" not in page + card


def test_the_adapter_of_an_invalid_run_is_not_handed_over(story: Any) -> None:
    path = story.workspace.dossier / "adapter" / "testigo.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "weights_sha256": "a" * 64}), encoding="utf-8")
    with story.ledger() as ledger:
        control = [one.id for one in ledger.runs() if one.variant == "control"]
        ledger.append(kinds.EXPORTED, {"weights_sha256": "a" * 64, "merged": False}, run=control[0])
        ledger.invalidate_run(control[1], reason="it ran beside another")
    record = read_record(story.write())
    assert record.adapter is not None, "it is that of a valid run"
    assert "the valid runs were evaluated but not compared" in sentence(record)
    with story.ledger() as ledger:
        ledger.invalidate_run(control[0], reason="it read the rows of May")
    record = read_record(story.write())
    assert record.adapter is None
    assert not (story.workspace.dossier / "adapter").exists()
    assert "no adapter of a valid run was exported" in all_limits(record)
    assert verify_dossier(story.workspace.dossier).faults == ()


def test_samples_that_nobody_looked_at_are_a_limit(story: Any) -> None:
    with story.ledger() as ledger:
        ledger.append(kinds.SAMPLES_CONFIRMED, {"looked": False})
        record = gather(story.workspace, story.campaign, ledger)
    assert "answered by --yes" in all_limits(record)
    with story.ledger() as ledger:
        ledger.append(kinds.SAMPLES_CONFIRMED, {"looked": False, "encoding": "e", "how": "no terminal"})
        record = gather(story.workspace, story.campaign, ledger)
    assert "no terminal to ask on" in all_limits(record)


def test_who_looked_is_named_and_when(story: Any) -> None:
    with story.ledger() as ledger:
        began = ledger.events(kind=kinds.RUN_STARTED)[-1].number
        ledger.append(kinds.SAMPLES_CONFIRMED, {"looked": True, "by": "Ada <b>", "encoding": "e"})
        record = gather(story.workspace, story.campaign, ledger)
    assert record.data is not None
    assert record.data.samples == "Ada <b> looked and confirmed them"
    assert "Ada &lt;b&gt; looked" in html(record)
    event = Event(began - 1, "", kinds.SAMPLES_CONFIRMED, None, {"looked": False, "encoding": "e"}, "", "")
    after = replace(event, number=began + 1, body={"looked": True, "by": "Ada", "encoding": "e"})
    start = replace(event, number=began, kind=kinds.RUN_STARTED)
    assert samples_confirmed([event, after], [start]).endswith("after training had begun")


def test_a_lost_campaign_file_is_named(new_story: Callable[..., Any]) -> None:
    story = new_story()
    story.campaign.path.unlink()
    record = read_record(story.write())
    assert "campaign file" in [part.part for part in record.missing]
    assert "could not be read" in html(record)
