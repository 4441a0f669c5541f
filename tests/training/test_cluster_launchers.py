"""Workers on a real Ray cluster and as jobs of submitit's local executor: variants on few places, a node that dies."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from silent import Silent

from testigo.campaign import planned_runs
from testigo.conductor import train
from testigo.errors import TestigoError, WorkspaceError
from testigo.ledger import Ledger, kinds
from testigo.training import launchers
from testigo.training.launchers import Placement
from testigo.training.start import Work, side_by_side, to_end

if TYPE_CHECKING:
    from tiny import Tiny

    from testigo.conductor.grounds import Grounds

VARIANTS = [
    {"name": f"rate-{n}", "set": {"training.learning_rate": 1e-2 / n}, "because": "the rate may matter"}
    for n in (2, 3, 4)
]
SETTINGS = {
    "variants": VARIANTS,
    "machine": {"launcher": "ray"},
    "evaluation.samples": 0,
    "training.updates": 120,
    "training.validate_every": None,
    "training.checkpoint": {"every": 20, "keep": 2},
}


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    """A cluster of this machine with two places."""
    os.environ["OMP_NUM_THREADS"] = "1"
    import ray as library

    library.init(num_cpus=2, log_to_driver=False, logging_level="ERROR", include_dashboard=False)
    yield library
    library.shutdown()


@pytest.fixture
def grounds(tiny: Tiny, tmp_path: Path) -> Iterator[Grounds]:
    from testigo.conductor.opening import opened

    campaign = tiny.campaign(SETTINGS)
    with opened(campaign, tmp_path / "ws", Silent()) as opening:
        yield opening


def jobs(grounds: Grounds) -> list[Any]:
    def job(planned: Any) -> Any:
        def work(place: int) -> Work[None]:
            return train.train(grounds, planned, placement=train.placement_at(place, grounds))

        return work

    return [job(planned) for planned in planned_runs(grounds.campaign)]


def kill_a_worker_once(grounds: Grounds) -> Any:
    """Kill the cluster's own process under the first run that has made an update: what a lost node looks like."""
    killed: list[int] = []

    def look(place: int) -> Work[None]:
        while not killed:
            for told in grounds.workspace.root.glob("runs/*/worker.json"):
                if (told.parent / "steps.jsonl").exists():
                    import json

                    worker = psutil.Process(json.loads(told.read_text())["pid"])
                    parent = worker.parent()
                    assert parent is not None
                    assert "ray" in " ".join(parent.cmdline())
                    parent.send_signal(signal.SIGKILL)
                    killed.append(parent.pid)
                    break
            yield

    return look


@pytest.mark.usefixtures("ray")
def test_four_variants_on_two_places_all_end_though_a_node_is_lost_under_one(grounds: Grounds) -> None:
    assert train.at_once(grounds) == 4, "the cluster says itself when each may begin"
    side_by_side([*jobs(grounds), kill_a_worker_once(grounds)], at_once=5)
    runs = grounds.ledger.runs()
    assert [run.variant for run in runs] == ["control", "rate-2", "rate-3", "rate-4"]
    assert [(run.state, run.updates) for run in runs] == [("completed", 120)] * 4
    assert sorted(run.attempts for run in runs) == [1, 1, 1, 2], "the second attempt is recorded"
    (lost,) = [e for e in grounds.ledger.events(kinds.RUN_ENDED) if e.body["state"] == "interrupted"]
    assert "the loss of its node" in lost.body["cause"]
    assert grounds.ledger.verify() == ()


@pytest.mark.usefixtures("ray")
def test_what_no_node_has_and_a_workspace_that_it_does_not_see_are_told(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"

    def heard(pid: int, host: str | None) -> None:
        raise AssertionError("nothing was started")

    with pytest.raises(TestigoError, match="none of which has them"):
        to_end(launchers.start(Placement("ray", memory_gib=1e6), "m", "spec.json", log=log, on_start=heard))
    missing = str(tmp_path / "nowhere" / "spec.json")
    with pytest.raises(WorkspaceError, match="does not see it"):
        to_end(launchers.start(Placement("ray"), "testigo.training.worker", missing, log=log, on_start=heard))


@pytest.mark.usefixtures("ray")
def test_a_run_on_the_cluster_that_is_asked_to_stop_saves(tiny: Tiny, tmp_path: Path) -> None:
    from testigo.training import start

    spec = tiny.spec({"training.updates": 5000, "training.validate_every": None}).write(tmp_path)
    heard: list[str | None] = []
    work = start.train(spec, n_updates=5000, reporter=Silent(), placement=Placement("ray"),
                       on_start=lambda pid, host: heard.append(host))  # fmt: skip
    while not (tmp_path / "steps.jsonl").exists():
        next(work)
    work.close()
    assert heard == [os.uname().nodename]
    assert '"interrupted"' in (tmp_path / "result.json").read_text()
    assert any((tmp_path / "checkpoints").iterdir())


def test_a_run_as_a_job_of_submitit_is_the_run_that_it_is_here(tiny: Tiny, tmp_path: Path) -> None:
    from testigo.training import start

    results = []
    for name, placement in (("here", Placement()), ("job", Placement("slurm", slurm={"cluster": "local"}))):
        spec = tiny.spec({"evaluation.samples": 0}).write(tmp_path / name)
        heard: list[int] = []
        work = start.train(spec, n_updates=6, reporter=Silent(), placement=placement,
                           on_start=lambda pid, host, heard=heard: heard.append(pid))  # fmt: skip
        results.append(to_end(work))
        assert len(heard) == 1
    assert results[0]["final_weights_sha256"] == results[1]["final_weights_sha256"]


def test_the_baseline_and_the_pilot_are_measured_where_the_runs_will_be_trained(tiny: Tiny, tmp_path: Path) -> None:
    from testigo.conductor import measure
    from testigo.conductor.opening import opened

    there = {"machine": {"launcher": "slurm", "slurm": {"cluster": "local"}}}
    with opened(tiny.campaign({**SETTINGS, **there}), tmp_path / "ws", Silent()) as grounds:
        made = measure.baseline(grounds)
        assert measure.pilot(grounds).ok
        folder = measure.pilot_folder(grounds)
    for log in (made.parent, folder):
        told = json.loads((log / "worker.json").read_text())
        assert (told["host"], told["ended"]) == (os.uname().nodename, True), "a job of submitit started it"
    assert json.loads((folder / "phases.json").read_text())["phases"]
    here = {"machine": {"launcher": "local"}}
    with opened(tiny.campaign({**SETTINGS, **here}), tmp_path / "ws2", Silent()) as grounds:
        assert measure.pilot_folder(grounds).name != folder.name, "other nodes, another verdict"


def test_a_machine_without_slurm_is_told(tmp_path: Path) -> None:
    with pytest.raises(TestigoError) as error:
        to_end(launchers.start(Placement("slurm"), "m", "spec.json", log=tmp_path / "log.txt", on_start=print))
    assert "machine.slurm" in str(error.value)


def test_the_ledger_names_the_host_of_a_run_elsewhere(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "ledger.sqlite") as ledger:
        ledger.plan_run("a", variant="control", seed=0, defines={})
        ledger.start_run("a", pid=1, host="node-7")
        assert ledger.mark_dead() == (), "whether a process on another host is gone cannot be known from here"
