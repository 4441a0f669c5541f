"""Logs of other tools become curves, whatever they call their columns; what is no log is told in four parts."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from testigo.errors import DataError
from testigo.watch.logs import read_log

HISTORY: list[dict[str, Any]] = [
    {"epoch": 0.5, "grad_norm": 1.25, "learning_rate": 2e-5, "loss": 2.5, "step": 10},
    {"epoch": 1.0, "grad_norm": 1.0, "learning_rate": 1e-5, "loss": 2.0, "step": 20},
    {"epoch": 1.0, "eval_loss": 2.1, "eval_runtime": 1.2, "step": 20},
    {"epoch": 1.0, "step": 20, "total_flos": 1e15, "train_loss": 2.25, "train_runtime": 100.0},
]


def state(folder: Path, step: int, history: list[dict[str, Any]] | None = None) -> Path:
    folder.mkdir(parents=True)
    document = {"global_step": step, "max_steps": step, "log_history": history or HISTORY}
    (folder / "trainer_state.json").write_text(json.dumps(document))
    return folder / "trainer_state.json"


def file(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def problems(path: Path) -> list[tuple[str, str]]:
    with pytest.raises(DataError) as refused:
        read_log(path)
    assert refused.value.exit_code == 2
    assert all(part for problem in refused.value.problems for part in (problem.expected, problem.found, problem.action))
    return [(problem.where, problem.found) for problem in refused.value.problems]


def test_the_state_of_a_trainer_is_read_without_its_summary(tmp_path: Path) -> None:
    path = state(tmp_path / "checkpoint-20", 20)
    (path.parent / "config.json").write_text('{"vocab_size": 300}')

    log = read_log(path)

    assert log.updates == [10, 20]
    assert [step["loss"] for step in log.steps if "loss" in step] == [2.5, 2.0]
    assert log.n_validations == 1
    assert log.vocabulary_size == 300
    assert log.columns["gradient_norm"] == "grad_norm"
    assert log.curve().validation == ((20, 2.1, 0),)


def test_the_newest_state_of_an_output_folder_is_taken_whatever_the_names_say(tmp_path: Path) -> None:
    state(tmp_path / "out" / "checkpoint-900", 900)
    state(tmp_path / "out" / "checkpoint-1000", 1000)

    assert "checkpoint-1000" in str(read_log(tmp_path / "out").path)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "step,loss,lr\n1,2.0,1e-4\n2,nan,1e-4\n"),
        ("b.csv", "Step;Train Loss;LR\n1;2.0;1e-4\n2;NaN;1e-4\n"),
        ("c.tsv", "global_step\ttrain/loss\ttrain/learning_rate\n1\t2.0\t1e-4\n2\tnan\t1e-4\n"),
        ("d.jsonl", '{"step": 1, "loss": 2.0, "lr": 1e-4}\n{"step": 2, "loss": NaN, "lr": 1e-4}\n'),
        (
            "e.jsonl",
            '{"_step": 1, "train/loss": 2.0, "lr": 1e-4}\n\n{"_step": 2, "train/loss": "nan", "lr": 1e-4}\n{"_s',
        ),
        ("f.json", '[{"iter": 1, "loss": 2.0, "lr": 1e-4}, {"iter": 2, "loss": NaN, "lr": 1e-4}]'),
        ("g.json", '{"loss": [2.0, NaN], "lr": [1e-4, 1e-4], "other": "x"}'),
        ("h.log", '{"step": 1, "loss": 2.0, "lr": 1e-4}\n{"step": 2, "loss": NaN, "lr": 1e-4}\n'),
    ],
)
def test_one_run_in_many_forms_is_one_curve(tmp_path: Path, name: str, text: str) -> None:
    log = read_log(file(tmp_path / name, text))

    curve = log.curve()
    assert curve.updates.tolist() == [1, 2]
    assert curve.losses[0] == 2.0
    assert math.isnan(curve.losses[1])
    assert curve.learning_rates.tolist() == [1e-4, 1e-4]


def test_training_and_validation_in_one_line_are_two_steps(tmp_path: Path) -> None:
    log = read_log(file(tmp_path / "a.csv", "epoch,step,loss,val_loss\n0.5,1,2.0,\n1,2,1.5,1.8\n1.5,3,,\n"))

    assert log.updates == [1, 2]
    assert log.curve().validation == ((2, 1.8, 0),)


def test_steps_that_come_again_after_a_resume_replace_the_old_ones(tmp_path: Path) -> None:
    text = "".join(
        f'{{"step": {step}, "loss": {loss}}}\n' for step, loss in ((1, 3), (2, 2), (3, 9), (2, 1.9), (3, 1.8))
    )

    assert read_log(file(tmp_path / "a.jsonl", text)).curve().losses.tolist() == [3, 1.9, 1.8]


def test_columns_that_count_from_the_start_become_differences(tmp_path: Path) -> None:
    text = "step,loss,num_tokens,elapsed\n10,2,1000,5\n20,2,3000,15\n30,2,5000,25\n"

    curve = read_log(file(tmp_path / "a.csv", text)).curve()

    assert curve.tokens[1:].tolist() == [200, 200]
    assert curve.seconds[1:].tolist() == [1, 1]


def test_what_no_rule_looks_at_is_named(tmp_path: Path) -> None:
    log = read_log(file(tmp_path / "a.csv", "step,loss,rewards,foo\n1,2,3,4\n"))

    assert log.ignored == ("rewards", "foo")


def test_event_files_of_tensorboard_are_read(tmp_path: Path) -> None:
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path / "runs" / "today")) as writer:
        for step in range(1, 4):
            writer.add_scalar("train/loss", 3.0 / step, step)
            writer.add_scalar("train/grad_norm", 1.0, step)
        writer.add_scalar("eval/loss", 1.5, 3)

    log = read_log(tmp_path)

    assert log.updates == [1, 2, 3]
    assert log.curve().losses.tolist() == pytest.approx([3, 1.5, 1])
    assert log.curve().validation == ((3, 1.5, 0),)
    assert log.columns["gradient_norm"] == "train/grad_norm"


def test_a_run_folder_of_testigo_is_read_with_its_rows(tmp_path: Path) -> None:
    line = {"update": 1, "loss": "nan", "rows": ["r1"], "row_losses": {"r1": 2.0}, "learning_rate": 1e-4}
    (tmp_path / "steps.jsonl").write_text(json.dumps(line) + "\n")

    assert read_log(tmp_path).curve().rows == {1: ("r1",)}


def test_all_bad_values_are_told_at_once_with_line_and_column(tmp_path: Path) -> None:
    path = file(tmp_path / "a.csv", "step,loss,lr\n1,2.0,1e-4\n2,hello,1e-4\nx,1.0,fast\n")

    told = problems(path)

    assert [where for where, _ in told] == [
        f"{path}, line 3, column loss", f"{path}, line 4, column step", f"{path}, line 4, column lr",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("a.csv", "", "empty"),
        ("a.csv", "step,loss\n", "no line"),
        ("a.csv", "step,loss\n1,2,3,4\n", "4"),
        ("a.csv", "step,accuracy\n1,0.5\n", "step, accuracy"),
        ("a.json", "{", "no JSON"),
        ("a.json", "3", "a JSON int"),
        ("a.json", "[]", "a JSON list"),
        ("a.json", '{"log_history": []}', "no columns"),
        ("a.jsonl", "[1]\n{}\n", "list, not an object"),
        ("a.jsonl", "nonsense\n", "nonsense"),
    ],
)
def test_what_is_no_log_is_refused_in_four_parts(tmp_path: Path, name: str, text: str, found: str) -> None:
    assert found in problems(file(tmp_path / name, text))[0][1]


def test_a_folder_without_or_with_several_logs_is_refused(tmp_path: Path) -> None:
    assert "nothing" in problems(tmp_path)[0][1]
    assert "nothing there" in problems(tmp_path / "none")[0][1]
    for name in ("a.csv", "b.csv"):
        file(tmp_path / name, "step,loss\n1,2\n")
    assert "2 tables" in problems(tmp_path)[0][1]
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00loss")
    assert "byte 0" in problems(tmp_path / "binary.csv")[0][1]


def test_folders_of_several_runs_of_tensorboard_are_not_mixed(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "events.out.tfevents.1.host").write_bytes(b"")

    assert "2 folders" in problems(tmp_path)[0][1]
    assert "without any" in problems(tmp_path / "one")[0][1]


def test_a_column_that_has_the_name_of_one_of_ours_and_holds_something_else_is_not_looked_at(tmp_path: Path) -> None:
    lines = [{"step": n, "loss": 1.0, "rows": 16, "row_losses": [1.0], "examples": "many"} for n in range(1, 4)]
    log = read_log(file(tmp_path / "log.jsonl", "".join(json.dumps(line) + "\n" for line in lines)))
    assert log.updates == [1, 2, 3]
    assert set(log.steps[0]) == {"update", "loss"}
    assert log.curve().losses.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("text", ['[{"step": 1' + "0" * 400 + ', "loss": 1}]', "[" * 5000, '{"a":' * 5000])
def test_numbers_and_nesting_beyond_all_measure_are_told(tmp_path: Path, text: str) -> None:
    for name in ("steps.json", "steps.jsonl", "trainer_state.json"):
        assert problems(file(tmp_path / name, text))
