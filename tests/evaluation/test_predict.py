"""Outputs row by row: asked as in training, scored by the task, written whole or not at all."""

from __future__ import annotations

import hashlib
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
import torch

from testigo.disk import read_lines
from testigo.encoding import EncodedRow
from testigo.errors import ModelError, WorkspaceError
from testigo.evaluation import worker
from testigo.evaluation.predict import Prediction, lines, predict
from testigo.evaluation.worker import EvaluationSpec
from testigo.training.prepare import Prepared
from testigo.training.spec import RunSpec

if TYPE_CHECKING:
    from tiny import Tiny


def asked(spec: RunSpec, out: Path, **changes: Any) -> EvaluationSpec:
    given = {"weights": None, "seed": 0, "split": "validation"} | changes
    return EvaluationSpec(
        campaign=spec.campaign,
        campaign_folder=spec.campaign_folder,
        corpus=spec.corpus,
        base_digest=spec.base_digest,
        out=str(out),
        **given,
    )


def predicted(prepared: Prepared, batch_size: int = 4) -> tuple[Prediction, ...]:
    rows = prepared.rows("validation")
    return predict(prepared.model, prepared.encoder, rows, max_new_tokens=8, batch_size=batch_size)


def sha256_of(ids: tuple[int, ...]) -> str:
    return hashlib.sha256(json.dumps(ids).encode()).hexdigest()


@pytest.mark.parametrize(
    "encoding", [{}, {"longer": "truncate", "maximum_length": 80}, {"longer": "drop", "maximum_length": 77}]
)
def test_the_prompts_of_evaluation_are_those_of_training(tiny: Tiny, encoding: dict[str, Any]) -> None:
    prepared = tiny.prepared({"encoding": encoding})
    rows = prepared.rows("validation")
    trained: tuple[EncodedRow, ...] = prepared.encoder.encode_all(rows)[0]
    prompts = {row.id: sha256_of(row.ids[: row.n_prompt]) for row in trained}
    made = predicted(prepared)
    assert [prediction.row for prediction in made] == [row.id for row in rows]
    assert {p.row: p.prompt_sha256 for p in made if p.row in prompts} == prompts
    assert len(prompts) > 3


def test_outputs_are_scored_and_told_with_their_ids(tiny: Tiny) -> None:
    prepared = tiny.prepared()
    rows = {row.id: row for row in prepared.rows("validation")}
    for prediction in predicted(prepared):
        row = rows[prediction.row]
        assert (prediction.group, prediction.category) == (row.group, row.category)
        assert prediction.output == prepared.encoder.frame.text_of(prediction.token_ids)
        assert prediction.scores == prepared.encoder.task.score(row.fields, prediction.output)
        assert prediction.stop in ("end", "length")
        assert len(prediction.token_ids) <= 8


def test_asking_leaves_the_mode_as_it_was_and_uses_no_dropout(tiny: Tiny) -> None:
    prepared = tiny.prepared({"model.adapter": {"method": "lora", "dropout": 0.9}})
    with torch.no_grad():
        for parameter in prepared.model.parameters():
            if parameter.requires_grad:
                parameter.add_(0.1)
    prepared.model.train()
    assert predicted(prepared) == predicted(prepared)
    assert prepared.model.training


def test_a_line_holds_any_sign_that_a_model_writes(tmp_path: Path) -> None:
    odd = Prediction("r\u2028", "", "g", "0", "a\nb\u2028c\x85d", (1, 2), "end", {"exact_match": 0.0})
    (tmp_path / "made.jsonl").write_text(lines([odd, odd]), encoding="utf-8")
    assert [line["output"] for line in read_lines(tmp_path / "made.jsonl")] == ["a\nb\u2028c\x85d"] * 2


def test_the_worker_writes_baseline_and_tuned_outputs_and_how_they_were_made(tiny: Tiny, tmp_path: Path) -> None:
    changes = {"training.updates": 4, "training.learning_rate": 0.1}
    spec, run = tiny.spec(changes), tiny.session(tmp_path / "run", changes)
    run.run()
    weights = tmp_path / "run" / "checkpoints" / "000004" / "weights.safetensors"
    outputs = []
    for name, given in (("base", None), ("tuned", str(weights))):
        path = asked(spec, tmp_path / name, weights=given).write(tmp_path / f"{name}.json")
        assert worker.main([str(path)]) == 0
        outputs.append(read_lines(tmp_path / name / "validation.jsonl"))
        meta = json.loads((tmp_path / name / "validation.meta.json").read_text())
        assert meta["rows"] == len(outputs[-1]) == 12
        assert meta["tokens"] == sum(len(line["token_ids"]) for line in outputs[-1])
        assert (meta["weights_sha256"] is None) == (given is None)
        assert meta["base"] == tiny.base().identity.to_json()
        assert not [p for p in (tmp_path / name).iterdir() if p.name.startswith(".")]
        assert json.loads((tmp_path / name / worker.PROGRESS).read_text()) == {"done": 12, "of": 12}
    base, tuned = outputs
    assert [line["prompt_sha256"] for line in base] == [line["prompt_sha256"] for line in tuned]
    assert [line["token_ids"] for line in base] != [line["token_ids"] for line in tuned]


def test_the_test_split_is_read_when_it_is_asked_for(tiny: Tiny, tmp_path: Path) -> None:
    worker.evaluate(asked(tiny.spec(), tmp_path, split="test"))
    asked_rows = {line["row"] for line in read_lines(tmp_path / "test.jsonl")}
    known = {row.id for split in ("train", "validation") for row in tiny.corpus.rows(split)}
    assert len(asked_rows) == 12
    assert not asked_rows & known


def test_outputs_of_another_base_are_never_made(tiny: Tiny, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    spec = asked(tiny.spec(), tmp_path / "out")
    path = EvaluationSpec(**{**vars(spec), "base_digest": "0" * 64}).write(tmp_path / "spec.json")
    assert worker.main([str(path)]) == ModelError.exit_code
    assert "its files have changed" in capfd.readouterr().err
    assert not (tmp_path / "out" / "validation.jsonl").exists()


def test_an_evaluation_that_cannot_write_says_so_and_leaves_nothing_half(
    tiny: Tiny, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = asked(tiny.spec(), tmp_path / "out").write(tmp_path / "spec.json")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (700, before[1]))
    try:
        assert worker.main([str(path)]) == WorkspaceError.exit_code
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "File too large" in capfd.readouterr().err
    assert {file.name for file in (tmp_path / "out").iterdir()} <= {worker.PROGRESS, "validation.meta.json"}
    assert worker.main([str(path)]) == 0
    assert len(read_lines(tmp_path / "out" / "validation.jsonl")) == 12


def test_an_evaluation_that_lost_its_starter_ends(tiny: Tiny, tmp_path: Path) -> None:
    spec = asked(tiny.spec(), tmp_path / "out").write(tmp_path / "spec.json")
    code = (
        "import os, subprocess, sys; env = os.environ | {'TESTIGO_STARTER': str(os.getpid())};"
        "p = subprocess.Popen([sys.executable, '-m', 'testigo.evaluation.worker', sys.argv[1]], env=env);"
        "print(p.pid, flush=True); p.wait()"
    )
    starter = subprocess.Popen([sys.executable, "-c", code, str(spec)], stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    own = psutil.Process(int(starter.stdout.readline()))
    starter.kill()
    starter.communicate()
    until = time.monotonic() + 60
    while own.is_running() and own.status() != psutil.STATUS_ZOMBIE and time.monotonic() < until:
        time.sleep(0.1)
    assert time.monotonic() < until
    assert not (tmp_path / "out" / "validation.jsonl").exists()


def test_a_written_class_keeps_the_class_that_was_read_out_of_it(tiny: Tiny) -> None:
    task = {"kind": "classification", "answer": "text", "input": "email", "target": "domain", "system": "Which?"}
    prepared = tiny.prepared({"task": task, "hypothesis.improve.metric": "accuracy"})
    assert len(prepared.encoder.task.labels) > 1, "without task.labels they are those of the rows"
    for line in map(json.loads, lines(predicted(prepared)).splitlines()):
        assert line["answer"] in ("", *prepared.encoder.task.labels)
        assert line["scores"] == {"accuracy": float(line["answer"] == line["target"])}
        assert "probabilities" not in line
