"""Two processes train the run that one trains: real torchrun, gloo, ddp and fsdp, whole and LoRA, packed and padded.

Tolerances, in fp32: sums over processes are added in another order, so loss and gradient norm of the first update agree
to 1e-6 of their size; AdamW divides by the root of squares, so weights after some updates agree to 1e-4 of the largest.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
import torch
from safetensors.torch import load_file
from silent import Silent
from tiny import updates, validations
from torch.distributed.elastic.multiprocessing.errors import ProcessFailure

from testigo.disk import read_lines
from testigo.errors import CampaignError
from testigo.training import start
from testigo.training.launchers import Placement, local
from testigo.training.launchers.torchrun import cause
from testigo.training.replicas import Replicas

if TYPE_CHECKING:
    from tiny import Tiny

SCRIPT = Path(__file__).with_name("several_processes.py")
COMBINATIONS = list(itertools.product(("ddp", "fsdp"), ("lora", "full"), ("packed", "padded")))
PATIENCE_SECONDS = 400


def changes(strategy: str, method: str, layout: str) -> dict[str, Any]:
    """Ragged rows, dropout, and a last update of one row: less than there are processes."""
    adapter = {"method": "lora", "rank": 4, "alpha": 8, "dropout": 0.1} if method == "lora" else {"method": "full"}
    return {
        "model.adapter": adapter,
        "encoding.layout": layout,
        "training.activation_checkpointing": layout == "padded",  # C28: without a wrapper, and never reentrant
        "training.epochs": 1.2,
        "training.microbatch": 3,
        "training.accumulation": 1,
        "training.learning_rate": 1e-2 if method == "lora" else 1e-3,
        "evaluation.batch_size": 5,
        "evaluation.samples": 2,
        "machine": {"processes": 2, "strategy": strategy},
    }


@pytest.fixture(scope="module")
def two(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, ...], Path]:
    """Every combination, trained by two processes that torchrun started once."""
    folder = tmp_path_factory.mktemp("two")
    places = {key: folder / "-".join(key) for key in COMBINATIONS}
    specs = [str(tiny.spec(changes(*key)).write(place)) for key, place in places.items()]
    torchrun(str(SCRIPT), *specs)
    return places


def torchrun(*command: str, n: int = 2, **environment: str) -> None:
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(n), *command]
    done = subprocess.run(run, env={**os.environ, "OMP_NUM_THREADS": "1", **environment}, text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE_SECONDS)  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:]


@pytest.mark.parametrize("key", COMBINATIONS, ids="-".join)
def test_two_processes_train_the_run_that_one_trains(
    tiny: Tiny, two: dict[tuple[str, ...], Path], tmp_path: Path, key: tuple[str, ...]
) -> None:
    alone = tiny.session(tmp_path, changes(*key))
    assert alone.run().state == "completed"
    told = json.loads((two[key] / "result.json").read_text())
    assert told["state"] == "completed", told
    assert len(set(told["digests"])) == 1, "both processes end with the same weights"
    same = ("update", "rows", "examples", "tokens", "supervised_tokens", "learning_rate", "epoch")
    for one, other in zip(updates(tmp_path), updates(two[key]), strict=True):
        assert [one[name] for name in same] == [other[name] for name in same]
        assert one["row_losses"].keys() == other["row_losses"].keys()
    one, other = updates(tmp_path)[0], updates(two[key])[0]
    assert other["loss"] == pytest.approx(one["loss"], rel=1e-6)
    assert other["gradient_norm"] == pytest.approx(one["gradient_norm"], rel=1e-6)
    for one, other in zip(validations(tmp_path), validations(two[key]), strict=True):
        assert other["validation_tokens"] == one["validation_tokens"]
        assert other["validation_loss"] == pytest.approx(one["validation_loss"], rel=1e-4)
    last = f"{updates(tmp_path)[-1]['update']:06d}"
    weights, wanted = (load_file(f / "checkpoints" / last / "weights.safetensors") for f in (two[key], tmp_path))
    assert weights.keys() == wanted.keys()
    for name, tensor in wanted.items():
        assert float((weights[name] - tensor).abs().max()) <= 1e-4 * float(tensor.abs().max().clamp(min=1e-3)), name
    own, others = samples(tmp_path), samples(two[key])
    assert [line[:2] for line in others] == [line[:2] for line in own], "each prompt once at each validation"
    assert [line for line in others if line[0] == 0] == [line for line in own if line[0] == 0], "the base is the same"


def samples(folder: Path) -> list[tuple[int, str, str]]:
    return [(line["update"], line["row"], line["output"]) for line in read_lines(folder / "samples.jsonl")]


def test_the_last_update_has_fewer_microbatches_than_processes(two: dict[tuple[str, ...], Path]) -> None:
    assert [line["examples"] for line in updates(two["ddp", "lora", "packed"])][-2:] == [6, 1]


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_what_two_processes_saved_goes_on_in_one_and_the_other_way_round(
    tiny: Tiny, two: dict[tuple[str, ...], Path], tmp_path: Path, strategy: str
) -> None:
    key = (strategy, "full", "packed")
    last = updates(two[key])[-1]["update"]
    alone = tiny.session(tmp_path, changes(*key))
    (tmp_path / "checkpoints").symlink_to(two[key] / "checkpoints")
    assert alone.resume(2) == ()
    assert alone.progress.update == last
    kept = load_file(two[key] / "checkpoints" / f"{last:06d}" / "optimizer.safetensors")
    name = next(iter(alone.parameters))
    moment = alone.optimizer.state[alone.parameters[name]]["exp_avg"]
    assert torch.equal(moment, kept[f"{name}/exp_avg"])
    # and a checkpoint of one process is taken up by two, and theirs by three: some of the updates each
    half = tiny.session(tmp_path / "half", changes(*key))
    half.stop_requested = lambda: half.progress.update == 3
    assert half.run().state == "interrupted"
    spec = tiny.spec(changes(*key)).write(tmp_path / "half")
    torchrun(str(SCRIPT), str(spec), STOP_AFTER="5")
    assert json.loads((tmp_path / "half" / "result.json").read_text())["state"] == "interrupted"
    if strategy == "fsdp":
        torchrun(str(SCRIPT), str(spec), n=3)
        assert json.loads((tmp_path / "half" / "result.json").read_text())["processes"] == 3
    else:
        assert tiny.session(tmp_path / "half", changes(*key)).resume(3) == ()
        torchrun(str(SCRIPT), str(spec))
    assert [line["update"] for line in updates(tmp_path / "half")] == list(range(1, last + 1))
    for one, other in zip(updates(two[key]), updates(tmp_path / "half"), strict=True):
        assert other["loss"] == pytest.approx(one["loss"], rel=1e-3)


LONG = {
    "training.updates": 4000,
    "training.validate_every": 4000,
    "training.checkpoint": {"every": 5, "keep": 2},
    "machine": {"processes": 2},
    "evaluation.samples": 0,
}


def started(tiny: Tiny, folder: Path) -> Any:
    work = start.train(
        tiny.spec(LONG).write(folder),
        n_updates=4000,
        reporter=Silent(),
        on_start=lambda pid, host: None,
        placement=Placement(processes=2),
    )
    until(lambda: next(work, None) is None and len(updates(folder)) >= 12)
    return work


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end


def workers() -> list[psutil.Process]:
    every = psutil.Process().children(recursive=True)
    lines = [(p, " ".join(p.cmdline())) for p in every]
    return [p for p, line in lines if "testigo.training.worker" in line and "torch.distributed.run" not in line]


def test_a_process_that_is_killed_ends_the_run_on_all_as_an_interruption(tiny: Tiny, tmp_path: Path) -> None:
    work = started(tiny, tmp_path)
    victims = workers()
    assert len(victims) == 2
    victims[1].send_signal(signal.SIGKILL)
    with pytest.raises(local.WorkerDied) as died:
        start.to_end(work)
    assert died.value.exit_code == -signal.SIGKILL
    assert workers() == []
    assert not (tmp_path / "result.json").exists()


def failures(*codes: int, later: float = 0.0) -> list[ProcessFailure]:
    found = [ProcessFailure(rank, 1, code, error_file="none") for rank, code in enumerate(codes)]
    found[-1].timestamp += int(later)
    return found


def test_a_kill_is_the_cause_of_the_errors_of_the_others_but_no_end_that_torchrun_itself_brings() -> None:
    assert cause(failures(1, -signal.SIGKILL)) == -signal.SIGKILL
    assert cause(failures(1, -signal.SIGTERM)) == 1
    assert cause(failures(1, -signal.SIGKILL, later=30)) == 1
    assert cause(failures(-signal.SIGKILL, 2)) == 2
    assert cause(failures(1, -signal.SIGSEGV, 3)) == 3


def test_a_process_that_stands_still_ends_the_run_on_all_as_an_interruption(tiny: Tiny, tmp_path: Path) -> None:
    work = started(tiny, tmp_path)
    workers()[1].send_signal(signal.SIGSTOP)  # its connections stay open: only its heartbeat is missed
    with pytest.raises(local.WorkerDied) as died:
        start.to_end(work)
    assert died.value.exit_code == -signal.SIGKILL
    assert workers() == []
    assert not (tmp_path / "result.json").exists()
    assert "has been silent for 20 s" in (tmp_path / "log.txt").read_text()


def agents(spec: Path, port: int) -> list[subprocess.Popen[bytes]]:
    """Two machines with one process each, as torchrun's own command line starts them; both are this one."""
    command = ["--nnodes", "2", "--nproc-per-node", "1", "--rdzv-backend", "c10d", "--rdzv-id", "tiny"]
    command += ["--rdzv-endpoint", f"127.0.0.1:{port}", "-m", "testigo.training.worker", str(spec)]
    return [
        subprocess.Popen(
            [sys.executable, "-m", "torch.distributed.run", *command], env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        for _ in range(2)
    ]  # fmt: skip


def a_free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_two_machines_meet_and_train_the_run_that_one_trains(
    tiny: Tiny, two: dict[tuple[str, ...], Path], tmp_path: Path
) -> None:
    key = ("ddp", "lora", "packed")
    both = agents(tiny.spec(changes(*key)).write(tmp_path), a_free_port())
    assert [agent.wait(PATIENCE_SECONDS) for agent in both] == [0, 0]
    told = json.loads((tmp_path / "result.json").read_text())
    assert told["state"] == "completed"
    together = json.loads((two[key] / "result.json").read_text())
    assert told["final_weights_sha256"] == together["digests"][0], "where processes are is no part of what they make"


def test_a_machine_whose_process_dies_ends_the_run_on_all_machines(tiny: Tiny, tmp_path: Path) -> None:
    both = agents(tiny.spec(LONG).write(tmp_path), a_free_port())
    until(lambda: len(updates(tmp_path)) >= 12 or any(agent.poll() is not None for agent in both))
    workers()[0].send_signal(signal.SIGKILL)
    assert all(agent.wait(PATIENCE_SECONDS) != 0 for agent in both)
    assert workers() == []
    assert not (tmp_path / "result.json").exists()
    assert list((tmp_path / "checkpoints").iterdir()), "from here it goes on"


def test_a_run_of_two_processes_that_is_asked_to_stop_saves_and_goes_on_bit_for_bit(tiny: Tiny, tmp_path: Path) -> None:
    work = started(tiny, tmp_path)
    work.close()  # as Ctrl-C does
    assert workers() == []
    told = json.loads((tmp_path / "result.json").read_text())
    assert told["state"] == "interrupted"
    assert (tmp_path / "checkpoints" / f"{told['updates']:06d}").is_dir()


DRIFTS = """
import os, runpy, sys
from testigo.training import optimizer, replicas
clip, add_gradients = optimizer.clip, replicas.Replicas.add_gradients

def own_gradients(self, parameters):
    kept = [(parameter, parameter.grad.clone()) for parameter in parameters]
    add_gradients(self, [parameter for parameter, _ in kept])
    for parameter, gradient in kept:
        parameter.grad.copy_(gradient)

if os.environ["RANK"] == "1" and sys.argv[1] == "clips":
    optimizer.clip = lambda parameters, maximum: clip(parameters, None)
if os.environ["RANK"] == "1" and sys.argv[1] == "is not wrapped":
    replicas.Replicas.add_gradients = own_gradients
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.parametrize("fault", ["clips", "is not wrapped"])
def test_one_replica_that_does_as_the_others_do_not_is_found_by_the_digests_of_the_weights(
    tiny: Tiny, tmp_path: Path, fault: str
) -> None:  # C30
    (tmp_path / "drifts.py").write_text(DRIFTS)
    spec = tiny.spec({**changes("ddp", "lora", "packed"), "training.clip": 1e-3}).write(tmp_path)
    torchrun(str(tmp_path / "drifts.py"), fault, str(SCRIPT), str(spec))
    told = json.loads((tmp_path / "result.json").read_text())
    assert told["state"] == "invalid"
    assert told["cause"].startswith("U113 replicas-differ at update 1: 2 replicas have 2 different digests")
    assert [line["code"] for line in read_lines(tmp_path / "findings.jsonl")] == ["U113"]


@pytest.mark.parametrize("n", [1, 2, 3, 5])
@pytest.mark.parametrize("n_items", [1, 2, 7, 12])
def test_every_item_counts_once_and_each_process_computes_equally_many(n: int, n_items: int) -> None:  # C46
    shares = [Replicas(rank, n).share(list(range(n_items))) for rank in range(n)]
    counted = sorted(item for share in shares for _, item, counts in share if counts)
    assert counted == list(range(n_items))
    assert len({len(share) for share in shares}) == 1
    assert all(number == item for share in shares for number, item, _ in share)


def test_pairs_that_cannot_be_are_refused_before_anything_starts(tiny: Tiny) -> None:
    with pytest.raises(CampaignError, match="nothing can be sharded"):
        tiny.campaign({"machine": {"strategy": "fsdp"}})
    with pytest.raises(CampaignError, match="loss scaling is not made for shards"):
        tiny.campaign({"machine": {"processes": 2, "strategy": "fsdp"}, "model.precision": "fp16"})
