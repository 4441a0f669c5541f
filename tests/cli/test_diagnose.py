"""`testigo diagnose` on runs that Testigo did not make."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from testigo.cli.app import run


def write(path: Path, losses: np.ndarray) -> Path:
    lines = [{"step": at + 1, "loss": float(loss), "lr": 1e-4, "foo": 1} for at, loss in enumerate(losses)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


LOSSES = (1 + 2 * np.exp(-np.arange(200) / 40)) * (1 + 0.05 * np.random.default_rng(0).normal(size=200))


def test_a_healthy_run_ends_with_code_0_and_says_what_was_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "steps.jsonl", LOSSES)

    assert run(["diagnose", str(path)]) == 0

    shown = capsys.readouterr()
    assert "200 training losses, updates 1 to 200" in shown.out
    assert "Not every update" not in shown.out
    assert "not looked at: foo" in shown.out
    assert "0 found something" in shown.out
    assert "next:" in shown.err


def test_a_sick_run_ends_with_code_1_and_one_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    losses = LOSSES.copy()
    losses[150:] = math.nan
    path = write(tmp_path / "steps.jsonl", losses)

    assert run(["diagnose", str(path), "--json"]) == 1

    document = json.loads(capsys.readouterr().out)
    assert document["ok"] is False
    assert [finding["code"] for finding in document["findings"]] == ["T101"]
    assert set(document["findings"][0]) == {"code", "name", "severity", "phase", "observed", "remedy", "rows"}
    assert "update 151" in document["findings"][0]["observed"]
    assert {"code", "why"} == set(document["not_checked"][0])
    assert document["read"]["lines"] == 200
    assert document["read"]["columns"] == {"update": "step", "loss": "loss", "learning_rate": "lr"}


def test_what_is_known_of_the_run_may_be_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "steps.jsonl", np.full(40, 8.0) + 0.01 * np.arange(40))

    assert run(["diagnose", str(path), "--json", "--vocabulary-size", "1000", "--base-loss", "2.5"]) == 1

    codes = {finding["code"] for finding in json.loads(capsys.readouterr().out)["findings"]}
    assert codes == {"T105", "T106"}


def test_a_log_of_every_tenth_update_is_called_one_and_a_gradient_that_jumps_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    norms = [1.2, 1.1, 0.9, 1.0, 1.1, 0.9, 1.0, 25.0, 1.1, 1.0]
    lines = [{"step": 10 * n, "loss": 3 - 0.2 * n, "grad_norm": norm} for n, norm in enumerate(norms, 1)]
    (tmp_path / "trainer_state.json").write_text(json.dumps({"global_step": 100, "log_history": lines}))

    assert run(["diagnose", str(tmp_path / "trainer_state.json")]) == 0

    out = capsys.readouterr().out
    assert "10 training losses, updates 10 to 100" in out
    assert "Not every update is in this log" in out
    assert "update 80: gradient norm 25, at most 1.2 before" in out
    assert "could not be checked: T104: fewer than 17 losses" in out


def test_bad_input_ends_with_code_2_and_four_parts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.csv").write_text("step,loss\n1,hello\n")

    assert run(["diagnose", str(tmp_path / "bad.csv"), "--json"]) == 2

    (problem,) = json.loads(capsys.readouterr().out)["problems"]
    assert problem["where"].endswith("line 2, column loss")
    assert problem["found"] == "'hello'"


def test_remedies_speak_in_the_settings_of_who_trained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    losses = [5.0] * 10 + [math.nan] * 10
    history = [{"step": at + 1, "loss": loss, "learning_rate": 1e-4} for at, loss in enumerate(losses)]
    (tmp_path / "trainer_state.json").write_text(json.dumps({"global_step": 20, "log_history": history}))
    write(tmp_path / "other.jsonl", np.array(losses))

    assert run(["diagnose", str(tmp_path / "trainer_state.json")]) == 1
    of_a_trainer = capsys.readouterr().out
    assert run(["diagnose", str(tmp_path / "other.jsonl")]) == 1
    of_another = capsys.readouterr().out

    assert "`max_grad_norm`" in of_a_trainer
    assert "training.learning_rate" not in of_a_trainer
    assert "training.learning_rate" in of_another
    assert "is a Trainer's" in of_another
