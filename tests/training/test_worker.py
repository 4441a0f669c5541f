"""A run in processes of its own: killed, stopped, left alone, and the same run in the end."""

from __future__ import annotations

import json
import random
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
import torch
from tiny import in_process, updates, validations

from testigo.errors import WorkspaceError
from testigo.model.device import is_out_of_memory
from testigo.training import start, worker
from testigo.training.launchers import local
from testigo.training.loop import Session

if TYPE_CHECKING:
    from tiny import Tiny

LONG = {
    "training.updates": 60,
    "training.validate_every": 20,
    "training.checkpoint": {"every": 7, "keep": 2},
    "model.adapter.dropout": 0.1,
}
PATIENCE_SECONDS = 120


def result(folder: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return read


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[str] | None = None) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not condition() and (process is None or process.poll() is None):
        assert time.monotonic() < until
        time.sleep(0.003)


def n_lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


@pytest.fixture(scope="module")
def straight(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that nobody disturbed, in this process."""
    folder = tmp_path_factory.mktemp("straight")
    outcome = worker.run(tiny.spec(LONG).write(folder), stop=threading.Event())
    assert outcome.state == "completed"
    return folder


class Heard:
    """A reporter that remembers."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.done: list[int] = []
        self.ends: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    def progress(self, step: str, done: int, of: int, note: str = "") -> None:
        assert step.startswith("train ")
        if of:  # before the first update nothing is counted
            assert of == 60
            self.done.append(done)

    def ended(self, step: str) -> None:
        self.ends.append(step)


def test_a_killed_run_goes_on_bit_for_bit(
    tiny: Tiny, straight: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # C31, C38
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    spec = tiny.spec(LONG).write(tmp_path)
    steps, seed = tmp_path / "steps.jsonl", random.randrange(10**6)
    instants = sorted(random.Random(seed).sample(range(1, 60), 2))
    for instant in instants:
        process = in_process("testigo.training.worker", str(spec))
        wait_until(lambda at=instant: n_lines(steps) >= at, process)
        process.kill()
        process.communicate()
    heard = Heard()
    ended = start.to_end(start.train(spec, n_updates=60, reporter=heard, on_start=lambda pid, host: None))
    assert ended["final_weights_sha256"] == result(straight)["final_weights_sha256"], f"seed {seed}"
    clocks = {"seconds": 0, "saving_seconds": 0}
    assert {**ended, **clocks} == {**result(straight), **clocks}
    assert [line["update"] for line in updates(tmp_path)] == list(range(1, 61)), f"seed {seed}"
    assert [line["update"] for line in validations(tmp_path)] == [20, 40, 60]
    same = ("loss", "learning_rate", "gradient_norm", "rows", "row_losses", "skipped", "epoch")
    for one, other in zip(updates(tmp_path), updates(straight), strict=True):
        assert [one[name] for name in same] == [other[name] for name in same], f"seed {seed}"
    assert heard.done == sorted(heard.done)
    assert heard.ends == [f"train {tmp_path.name}"]


def test_a_run_that_is_asked_to_stop_saves_and_goes_on(tiny: Tiny, straight: Path, tmp_path: Path) -> None:
    spec = tiny.spec(LONG).write(tmp_path)
    process = in_process("testigo.training.worker", str(spec))
    wait_until(lambda: n_lines(tmp_path / "steps.jsonl") >= 3, process)
    process.terminate()
    process.communicate()
    assert process.returncode == 3
    assert result(tmp_path)["state"] == "interrupted"
    done = result(tmp_path)["updates"]
    assert 3 <= done < 60
    assert (tmp_path / "checkpoints" / f"{done:06d}").is_dir()
    outcome = worker.run(spec, stop=threading.Event())
    assert outcome.state == "completed"
    resumed = json.loads((tmp_path / "resume.json").read_text())
    assert (resumed["attempt"], resumed["from_update"], resumed["passed_over"]) == (2, done, [])
    assert resumed["platform"] == result(tmp_path)["platform"]
    assert result(tmp_path)["final_weights_sha256"] == result(straight)["final_weights_sha256"]


def test_a_stop_is_heard_while_the_libraries_load(tiny: Tiny, tmp_path: Path) -> None:
    process = in_process("testigo.training.worker", str(tiny.spec(LONG).write(tmp_path)))
    wait_until((tmp_path / "worker.lock").exists, process)
    process.terminate()
    process.communicate()
    assert process.returncode == 3
    assert not (tmp_path / "steps.jsonl").exists()


STARTER = "import subprocess, sys, time; print(subprocess.Popen(sys.argv[1:]).pid, flush=True); time.sleep(600)"


@pytest.mark.parametrize("lines", [0, 3])
def test_a_worker_that_lost_its_starter_ends_by_itself(tiny: Tiny, tmp_path: Path, lines: int) -> None:
    """A kill reaches the starter alone; also while the worker still loads its libraries."""
    command = [sys.executable, "-m", "testigo.training.worker", str(tiny.spec(LONG).write(tmp_path))]
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, *command], stdout=subprocess.PIPE, text=True, env=local.environment()
    )
    assert starter.stdout is not None
    own = psutil.Process(int(starter.stdout.readline()))
    wait_until((tmp_path / "worker.lock").exists)
    wait_until(lambda: n_lines(tmp_path / "steps.jsonl") >= lines)
    starter.kill()
    starter.communicate()
    wait_until(lambda: not own.is_running() or own.status() == psutil.STATUS_ZOMBIE)
    done = len(updates(tmp_path))
    if lines:
        assert result(tmp_path)["state"] == "interrupted"
        assert (tmp_path / "checkpoints" / f"{done:06d}").is_dir()
    assert done < 60


def test_epochs_cut_anywhere_see_the_same_rows(tiny: Tiny, tmp_path: Path) -> None:  # C31
    """Ten rows, two an update, three epochs; dropout; a checkpoint at an epoch's end; killed at update 8."""
    rows = tuple(row.id for row in tiny.corpus.rows("train")[:10])
    changes = {
        "training.epochs": 3.0,
        "training.microbatch": 1,
        "training.checkpoint": {"every": 5, "keep": 3},
        "training.validate_every": 5,
        "model.adapter.dropout": 0.2,
    }
    whole = tiny.session(tmp_path / "whole", changes, rows=rows)
    assert whole.run().state == "completed"
    killed = tiny.session(tmp_path / "killed", changes, rows=rows)

    def die() -> bool:
        if killed.progress.update == 8:
            raise KeyboardInterrupt
        return False

    killed.stop_requested = die
    with pytest.raises(KeyboardInterrupt):
        killed.run()
    torch.manual_seed(12345)  # a fresh process has another global state
    again = tiny.session(tmp_path / "killed", changes, rows=rows)
    again.resume(2)
    assert again.progress.update == 5
    assert again.run().state == "completed"
    one, other = updates(tmp_path / "whole"), updates(tmp_path / "killed")
    assert [line["rows"] for line in one] == [line["rows"] for line in other]
    assert [line["loss"] for line in one] == [line["loss"] for line in other]
    for epoch in range(3):
        seen = [row for line in other[5 * epoch : 5 * epoch + 5] for row in line["rows"]]
        assert sorted(seen) == sorted(rows)
    for name, parameter in whole.parameters.items():
        assert torch.equal(parameter, again.parameters[name])


@contextmanager
def files_of_at_most(n_bytes: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("n_bytes", [8, 3000])
def test_a_full_disk_ends_a_worker_in_words_and_the_run_goes_on_with_room(
    tiny: Tiny, straight: Path, tmp_path: Path, n_bytes: int
) -> None:
    spec = tiny.spec(LONG).write(tmp_path)
    with files_of_at_most(n_bytes), pytest.raises(WorkspaceError) as refused:
        worker.run(spec, stop=threading.Event())
    assert "File too large" in refused.value.problems[0].found
    assert worker.run(spec, stop=threading.Event()).state == "completed"
    assert result(tmp_path)["final_weights_sha256"] == result(straight)["final_weights_sha256"]
    assert [line["update"] for line in updates(tmp_path)] == list(range(1, 61))


def test_memory_that_runs_out_is_a_state_of_the_run_on_a_cpu_too(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = Session.step

    def step_with_too_much(self: Session, update: int) -> dict[str, Any]:
        if update == 3:
            torch.empty(10**15)
        return step(self, update)

    monkeypatch.setattr(Session, "step", step_with_too_much)
    outcome = worker.run(tiny.spec(LONG).write(tmp_path), stop=threading.Event())
    assert outcome.state == "out-of-memory"
    assert outcome.cause.startswith("update 3: ")
    assert result(tmp_path)["updates"] == 2
    assert not is_out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))


def test_the_result_tells_what_was_trained_and_where_it_was_best(straight: Path) -> None:
    ended = result(straight)
    best = min(validations(straight), key=lambda line: line["validation_loss"])
    assert (ended["best_update"], ended["best_validation_loss"]) == (best["update"], best["validation_loss"])
    assert ended["trained"]["tensors"] == len(ended["trained_names"]) == 28
    assert ended["examples"] == 60 * 4
    assert ended["supervised_tokens"] == sum(line["supervised_tokens"] for line in updates(straight))
    assert ended["versions"]["torch"] == torch.__version__
    assert (straight / "checkpoints" / f"{best['update']:06d}").is_dir()


def test_two_workers_never_write_one_run(tiny: Tiny, tmp_path: Path) -> None:
    """The second waits for the first, and then finds nothing left to do."""
    spec = tiny.spec().write(tmp_path)
    ends: list[str] = []
    threads = [
        threading.Thread(target=lambda: ends.append(worker.run(spec, stop=threading.Event()).state)) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ends == ["completed", "completed"]
    assert [line["update"] for line in updates(tmp_path)] == [1, 2, 3, 4, 5, 6]


def test_a_worker_that_cannot_start_is_told_with_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(local.WorkerDied, match="exit code 1"):
        local.finish("testigo.no_such_worker", log=tmp_path / "log.txt")
    assert "no_such_worker" in (tmp_path / "log.txt").read_text()


def test_a_workers_own_error_reaches_its_starter_as_it_was(tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError, match=r"a run's spec\.json"):
        local.finish("testigo.training.worker", str(tmp_path / "spec.json"), log=tmp_path / "log.txt")


def test_a_killed_worker_is_told_by_its_signal(tmp_path: Path) -> None:
    died = local.WorkerDied(-signal.SIGKILL, tmp_path / "log.txt")
    assert "SIGKILL" in str(died)
