"""From the file to the dossier on a tiny model, and what each command says about it."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from whole import testigo as command

import testigo
from testigo.ledger import Ledger, kinds
from testigo.training.start import Work

if TYPE_CHECKING:
    from whole import Finished, Place


def test_a_campaign_goes_from_its_file_to_its_dossier(finished: Finished) -> None:
    document = finished.answers["run"]["document"]
    (run,) = document["runs"]
    assert document["ok"] is True
    assert (run["variant"], run["seed"], run["state"], run["updates"]) == ("control", 0, "completed", 30)
    assert Path(document["dossier"]).is_file()
    assert (finished.place.workspace / "dossier" / "adapter" / "adapter_model.safetensors").is_file()
    assert len(finished.place.steps(finished.place.only_run)) == 30


def test_a_campaign_in_which_nothing_was_learned_says_so_and_succeeds(finished: Finished) -> None:
    document = finished.answers["run"]["document"]
    assert document["conclusion"].startswith("Not decided")
    assert document["comparison"]["improvement"]["verdict"] == "not decided"


def test_each_step_is_in_the_ledger_once_and_in_order(finished: Finished) -> None:
    order = [
        kinds.WORKSPACE_CREATED, kinds.CORPUS_BUILT, kinds.BASELINE_EVALUATED, kinds.PILOT_FINISHED,
        kinds.SAMPLES_CONFIRMED, kinds.CAMPAIGN_REGISTERED, kinds.HYPOTHESIS_WEIGHED, kinds.RUN_PLANNED,
        kinds.RUN_STARTED, kinds.RUN_ENDED, kinds.RUN_EVALUATED, kinds.COMPARED, kinds.EXPORTED, kinds.DOSSIER_WRITTEN,
    ]  # fmt: skip
    events = finished.place.events()
    assert [event.kind for event in events] == order
    assert events[4].body["looked"] is False, "nobody was asked without a terminal, and the ledger says so"


def test_running_again_starts_no_process_and_writes_no_event(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    before, files = place.events(), _contents(place.workspace)
    monkeypatch.setattr(subprocess, "Popen", _no_process)
    again = place.testigo("run", "--json")
    assert again.code == 0, again.err
    assert again.document["conclusion"]
    assert place.events() == before
    assert _contents(place.workspace) == files


def test_the_python_api_runs_the_same_campaign(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    before = place.events()
    monkeypatch.setattr(subprocess, "Popen", _no_process)
    comparison = testigo.run(testigo.load(place.file), workspace=place.workspace)
    assert comparison.conclusion.startswith("Not decided")
    assert place.events() == before


def test_the_python_api_asks_nobody_about_samples_and_the_ledger_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import whole

    place = whole.make(tmp_path / "fresh")
    monkeypatch.setattr(subprocess, "Popen", _no_process)  # so it ends where the base is evaluated
    with pytest.raises(AssertionError):
        testigo.run(testigo.load(place.file), workspace=place.workspace)
    (event,) = place.events(kinds.SAMPLES_CONFIRMED)
    assert (event.body["looked"], event.body["how"]) == (False, "--yes")


def test_a_merged_export_is_a_whole_model_that_answers_as_the_adapter_does(place: Place, tmp_path: Path) -> None:
    import whole
    from transformers import AutoModelForCausalLM, AutoTokenizer

    out = tmp_path / "merged"
    refused = place.testigo("export", "--merged")
    assert (refused.code, "add --out DIR" in refused.err) == (2, True)
    answer = place.testigo("export", "--merged", "--out", str(out), "--json")
    assert answer.code == 0, answer.err
    assert "4 of 4 outputs are those of the adapter" in answer.err
    for step in ("merge", "control inputs"):
        assert f"{step}: the model is loaded" in answer.err
        assert f"\n{step}: 4/4 (" in answer.err
    record = json.loads((out / "testigo.json").read_text())
    adapter = json.loads((place.only_run / "export" / "testigo.json").read_text())
    assert (record["kind"], record["merged_adapter_sha256"]) == ("model", adapter["weights_sha256"])
    assert not (out / "adapter_config.json").exists()
    model = AutoModelForCausalLM.from_pretrained(out).eval()  # as anybody loads it, without Testigo or peft
    assert len(AutoTokenizer.from_pretrained(out)) > 0
    for control in adapter["control_inputs"]:
        ids = torch.tensor([control["prompt_ids"]])
        made = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=20)
        written = made[0, ids.shape[1] :].tolist()
        assert written[: len(control["output_ids"])] == list(control["output_ids"])
    event = place.events(kinds.EXPORTED)[-1]
    assert event.body["merged_weights_sha256"] == record["weights_sha256"]
    assert event.body["merged_logits_apart"] <= 1e-4
    # the same again is nothing new, and nothing that lies there is overwritten
    before = place.events()
    assert place.testigo("export", "--merged", "--out", str(out)).code == 0
    assert place.testigo("export", "--out", str(out)).code == 2
    assert place.events() == before
    # nor does a run that is started again
    assert place.testigo("run", "--json").code == 0
    assert place.events(kinds.EXPORTED) == tuple(event for event in before if event.kind == kinds.EXPORTED)
    assert whole.testigo("verify", str(out), "--base", f"path:{place.folder / 'llama'}").code == 0


def test_status_has_its_documented_shape(finished: Finished) -> None:
    status = finished.place.testigo("status", "--json").document
    assert (status["campaign"], status["state"]) == ("tiny", "completed")
    (run,) = status["runs"]
    assert set(run) == {"id", "variant", "seed", "state", "cause", "updates"}
    assert (run["state"], run["updates"]) == ("completed", 30)


def test_compare_has_its_documented_shape(finished: Finished) -> None:
    compared = finished.place.testigo("compare", "--json").document
    metrics = {"exact_match", "token_f1"}
    assert set(compared["baseline"]) == set(compared["control"]) == metrics
    assert compared["variants"] == {}
    assert compared["guards"] == []
    assert {"verdict", "difference", "low", "high"} <= set(compared["improvement"])
    assert set(compared["categories"]) == {"shop", "office"}


def test_pilot_has_its_documented_shape_and_is_healthy(finished: Finished) -> None:
    pilot = finished.answers["pilot"]["document"]
    assert pilot["ok"] is True
    assert [finding["code"] for finding in pilot["findings"] if finding["severity"] != "note"] == []
    columns = {
        "phase", "inputs", "allocated_peak_bytes", "reserved_peak_bytes", "resident_peak_bytes", "seconds", "verdict",
    }  # fmt: skip
    assert all(set(row) == columns for row in pilot["phases"])
    assert [row["phase"] for row in pilot["phases"]] == [
        "load", "data", "forward", "gradients", "update-1", "update-2", "backward", "validation", "overfit", "export",
        "resume", "merge",
    ]  # fmt: skip
    assert {row["verdict"] for row in pilot["phases"]} == {"passed"}
    assert all({"code", "why"} == set(skipped) for skipped in pilot["not_checked"])


def test_check_and_baseline_have_their_documented_shapes(finished: Finished, place: Place) -> None:
    check = place.testigo("check", "--json")
    assert check.code == 0
    assert {"ok", "findings", "not_checked", "lengths", "rows"} <= set(check.document)
    baseline = finished.answers["baseline"]["document"]
    assert baseline["rows"] == 12
    assert set(baseline["metrics"]) == set(baseline["detectable"]) == {"exact_match", "token_f1"}


def test_the_ledger_and_the_dossier_verify(finished: Finished) -> None:
    ledger = finished.place.testigo("ledger verify", "--json").document
    assert (ledger["ok"], ledger["faults"]) == (True, [])
    assert ledger["events"] == len(finished.place.events())
    import whole

    dossier = whole.testigo("verify", str(finished.place.workspace / "dossier"), "--no-control", "--json")
    assert dossier.code == 0, dossier.out
    assert (dossier.document["ok"], dossier.document["faults"]) == (True, [])


def test_json_is_one_document_and_prose_goes_to_standard_error(finished: Finished) -> None:
    for answer in finished.answers.values():
        assert isinstance(answer["document"], dict)  # parsed from the whole of standard output
        assert "next:" in answer["err"]
        assert '"ok"' not in answer["err"]


def test_the_test_stays_sealed_without_reason_or_confirmation(place: Place) -> None:
    assert place.testigo("open-test", "--json", "--yes").problem["where"] == "--because"
    assert "--yes" in place.testigo("open-test", "--json", "--because", "final").problem["action"]
    assert place.events(kinds.TEST_OPENED) == ()
    assert not list(place.workspace.glob("**/predictions/test.jsonl"))


def test_the_test_is_not_opened_for_another_hypothesis_than_the_promised(place: Place) -> None:
    place.change({"hypothesis.improve.by": 0.01})
    refused = place.testigo("open-test", "--json", "--yes", "--because", "final")
    assert refused.code == 2
    assert "hypothesis.improve.by: 0.1 → 0.01" in refused.problem["found"]
    assert place.events(kinds.TEST_OPENED) == ()


def test_each_opening_of_the_test_is_counted_and_an_interrupted_one_goes_on(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "Popen", _interrupted)
    arguments = ("open-test", "--json", "--yes", "--because", "final")
    assert place.testigo(*arguments).code == 3
    assert len(place.events(kinds.TEST_OPENED)) == 1
    monkeypatch.undo()
    first = place.testigo(*arguments)
    assert first.code == 0, first.err
    assert first.document["openings"] == 1
    assert len(place.events(kinds.TEST_OPENED)) == 1
    second = place.testigo(*arguments)
    assert second.document["openings"] == 2
    assert [event.body["split"] for event in place.events(kinds.COMPARED)] == ["validation", "test", "test"]
    assert place.testigo("ledger verify", "--json").document["ok"] is True
    before = place.events()
    assert place.testigo("run", "--json").code == 0
    assert place.events() == before


def test_an_export_never_overwrites_another(place: Place, tmp_path: Path) -> None:
    out = tmp_path / "adapter"
    assert place.testigo("export", "--json", "--out", str(out)).document["folder"] == str(out)
    assert (out / "adapter_model.safetensors").is_file()
    assert place.testigo("export", "--json", "--out", str(out)).code == 0, "the same export is no other"
    record = json.loads((out / "testigo.json").read_text())
    (out / "testigo.json").write_text(json.dumps({**record, "weights_sha256": "0" * 64}))
    kept = _contents(out)
    refused = place.testigo("export", "--json", "--out", str(out))
    assert refused.code == 2
    assert "never overwritten" in refused.problem["action"]
    assert _contents(out) == kept


def test_a_command_names_the_next_one(finished: Finished) -> None:
    assert "testigo pilot" in finished.answers["baseline"]["err"]
    assert "testigo run" in finished.answers["pilot"]["err"]
    assert "testigo open-test" in finished.answers["run"]["err"]


def test_a_variant_is_a_run_of_its_own_and_is_reported_beside_the_control(place: Place) -> None:
    kept = (place.only_run / "result.json").read_bytes()
    variant = {"name": "slow", "set": {"training.learning_rate": 1e-4}, "because": "the control may be too fast"}
    place.change({"variants": [variant]})
    answer = place.testigo("run", "--json", "--amend", "one more question")
    assert answer.code == 0, answer.err
    runs = answer.document["runs"]
    assert [(run["variant"], run["state"], run["updates"]) for run in runs] == [
        ("control", "completed", 30), ("slow", "completed", 30),
    ]  # fmt: skip
    assert (place.workspace / "runs" / runs[0]["id"] / "result.json").read_bytes() == kept, "the control is not redone"
    compared = place.testigo("compare", "--json").document
    assert set(compared["variants"]) == {"slow"}
    assert "the control may be too fast" in (place.workspace / "dossier" / "index.html").read_text(encoding="utf-8")


def test_runs_go_on_side_by_side_and_are_the_runs_that_they_are_alone(finished: Finished, tmp_path: Path) -> None:
    alone = (finished.place.only_run / "result.json").read_text(encoding="utf-8")
    place = finished.piloted.copy(tmp_path / "parallel")
    variant = {"name": "slow", "set": {"training.learning_rate": 1e-4}, "because": "the control may be too fast"}
    place.change({"variants": [variant], "machine": {"parallel": 2}})
    answer = place.testigo("run", "--json")
    assert answer.code == 0, answer.err
    states = [event.kind for event in place.events() if event.kind in (kinds.RUN_STARTED, kinds.RUN_ENDED)]
    assert states == [kinds.RUN_STARTED, kinds.RUN_STARTED, kinds.RUN_ENDED, kinds.RUN_ENDED]
    control = next(run["id"] for run in answer.document["runs"] if run["variant"] == "control")
    again = (place.workspace / "runs" / control / "result.json").read_text(encoding="utf-8")
    assert json.loads(again)["final_weights_sha256"] == json.loads(alone)["final_weights_sha256"]


def test_an_interruption_ends_all_that_go_on_side_by_side_and_each_goes_on(finished: Finished, tmp_path: Path) -> None:
    import signal
    import time

    place = finished.piloted.copy(tmp_path / "interrupted")
    place.change({"seeds": [0, 1], "machine": {"parallel": 2}, "training.updates": 400})
    process = place.start("run", "--json")
    until = time.monotonic() + 120
    while len([run for run in (place.workspace / "runs").glob("*/steps.jsonl") if run.stat().st_size > 2000]) < 2:
        assert time.monotonic() < until, process.communicate()
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 3, err
    assert [run["state"] for run in place.testigo("status", "--json").document["runs"]] == ["interrupted"] * 2


def test_a_control_that_diverged_ends_with_code_1_and_a_dossier_that_says_so(
    finished: Finished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from testigo.training import start

    place = finished.piloted.copy(tmp_path / "diverged")
    monkeypatch.setattr(subprocess, "Popen", _no_process)
    monkeypatch.setattr(start, "train", _diverged)
    ended = place.testigo("run", "--json")
    assert ended.code == 1, ended
    assert (ended.document["ok"], ended.document["comparison"]) == (False, None)
    assert [(run["state"], run["cause"]) for run in ended.document["runs"]] == [("diverged", "the loss is nan")]
    assert "the loss is nan" in (place.workspace / "dossier" / "index.html").read_text(encoding="utf-8")
    assert place.events(kinds.EXPORTED) == ()
    before = place.events()
    assert place.testigo("run", "--json").code == 1, "a run that diverged is not tried again in silence"
    assert place.events() == before
    refused = place.testigo("open-test", "--json", "--yes", "--because", "final")
    assert (refused.code, "is diverged (the loss is nan)" in refused.problem["found"]) == (2, True)
    assert refused.problem["action"].startswith("mend the cause in the campaign file, then: testigo run")


def test_where_the_only_control_is_invalid_nothing_is_concluded_and_another_seed_leads_on(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    from testigo.training import start

    monkeypatch.setattr(subprocess, "Popen", _no_process)
    (run,) = [folder.name for folder in (place.workspace / "runs").iterdir()]
    declared = command(
        "ledger", "invalid", str(place.file), run, "--because", "it read the rows of May", "--workspace",
        str(place.workspace), "--json",
    )  # fmt: skip
    assert declared.code == 0, declared.err
    ended = place.testigo("run", "--json")
    assert (ended.code, ended.document["comparison"]) == (1, None)
    assert ended.document["conclusion"].startswith("no valid run of the control is there: control-s0-")
    assert "put another seed under seeds" in " ".join(ended.err.split())
    dossier = place.workspace / "dossier"
    assert not (dossier / "adapter").exists()
    assert "no valid run of the control is there" in (dossier / "index.html").read_text(encoding="utf-8")
    assert "model-index" not in (dossier / "MODEL_CARD.md").read_text(encoding="utf-8")
    assert place.testigo("export", "--json").problem["action"].startswith("put another seed")
    place.change({"seeds": [0, 1]})
    monkeypatch.setattr(start, "train", _diverged)
    place.testigo("run", "--json", "--amend", "the run of seed 0 read the rows of May")
    with Ledger.open(place.workspace / "ledger.sqlite") as ledger:
        assert [(run.seed, run.state) for run in ledger.runs()] == [(0, "invalid"), (1, "diverged")]


def _diverged(spec: Path, *, on_start: Any, **options: Any) -> Work[dict[str, Any]]:
    on_start(pid=1, host=None)
    yield
    return {"state": "diverged", "cause": "the loss is nan", "updates": 3, "seconds": 1.0}


def _contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in ("workspace.json", "ledger.sqlite-shm", "ledger.sqlite-wal")
    }


def _no_process(*arguments: Any, **options: Any) -> None:
    raise AssertionError(f"a process was started: {arguments}")


def _interrupted(*arguments: Any, **options: Any) -> None:
    raise KeyboardInterrupt


def test_a_dossier_that_was_given_away_is_verified_with_the_base_and_another_base_is_named(
    finished: Finished, tmp_path: Path
) -> None:
    import tiny
    import whole

    received = tmp_path / "received"
    shutil.copytree(finished.place.workspace / "dossier", received)
    base = finished.place.folder / "llama"
    answer = whole.testigo("verify", str(received), "--base", f"path:{base}", "--json")
    assert answer.code == 0, answer.document["faults"]
    assert "the control inputs" in answer.document["checked"]
    other = tiny.save_base(tmp_path / "other", "llama", seed=1)
    answer = whole.testigo("verify", str(received), "--base", f"path:{other}", "--json")
    assert answer.code == 1
    (fault,) = answer.document["faults"]
    assert fault.startswith("adapter/: control inputs: ")
    assert "weights" in fault
