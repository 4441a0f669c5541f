"""A pilot of several processes trains under the launch of the run, and is held against one process."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import piloted
import pytest
import torch

from testigo.pilot import processes, worker
from testigo.pilot.processes import PHASES
from testigo.pilot.verdict import ALONE

if TYPE_CHECKING:
    from tiny import Tiny

    from testigo.rules import Verdict

SUPPORT = Path(__file__).resolve().parents[1] / "support"
SHARDED: dict[str, Any] = {
    "machine": {"processes": 2, "strategy": "fsdp"},
    "model.adapter": {"method": "full"},
    "training.learning_rate": 1e-3,
}


@pytest.fixture(scope="module")
def sharded(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Verdict]:
    folder = tmp_path_factory.mktemp("sharded")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        piloted.in_this_process(patch)
        return folder, piloted.pilot(tiny, folder, SHARDED)


def evidence(folder: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((folder / "evidence.json").read_text(encoding="utf-8"))
    return told


def table(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((folder / "phases.json").read_text(encoding="utf-8"))["phases"]
    return rows


def test_sharded_training_is_piloted_in_its_own_processes_and_equals_one(sharded: tuple[Path, Verdict]) -> None:
    folder, verdict = sharded
    assert verdict.ok, verdict.findings
    assert {"U113", "U131", "U132"} <= {one.code for one in verdict.passed}
    told = evidence(folder)["ProcessesEvidence"]
    assert (told["processes"], told["strategy"], told["rows_equal"]) == (2, "fsdp", True)
    assert told["gradient_error"] < 1e-6
    assert told["weights_error"] < 1e-4
    assert told["loss_together"] == pytest.approx(told["loss_alone"], rel=1e-6)
    assert (told["updates_after"], told["resumed_equal"], told["resumed_difference"]) == (2, True, 0.0)


def test_the_table_shows_the_fullest_process_of_each_training_phase(sharded: tuple[Path, Verdict]) -> None:
    rows = table(sharded[0])
    assert tuple(row["phase"] for row in rows[: len(PHASES)]) == PHASES
    for row in rows[: len(PHASES)]:
        peaks = [one["resident_peak_bytes"] for one in row["processes"]]
        assert len(peaks) == 2
        assert row["resident_peak_bytes"] == max(peaks) > 0
        assert row["inputs"].endswith(", 2 processes")
        assert row["verdict"] == "passed"
    assert {row["phase"] for row in rows if row["phase"].endswith(ALONE)} == {
        "load alone", "forward alone", "update-1 alone", "update-2 alone", "backward alone", "resume alone",
    }  # fmt: skip


def test_where_one_process_has_no_room_the_comparison_could_not_be_made_and_nothing_fails(
    tiny: Tiny, sharded: tuple[Path, Verdict], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("tried to allocate 80 GiB")

    before = evidence(sharded[0])["ProcessesEvidence"]
    kept = {name: before[name] for name in ("processes", "strategy", "precision", "device", "updates_after",
                                            "resumed_equal", "resumed_difference")}  # fmt: skip
    together = processes.Together(processes.ProcessesEvidence(**kept), tmp_path, (), [{"loss": 1.0, "rows": []}] * 4)
    monkeypatch.setattr(processes, "collect", lambda *_: together)
    monkeypatch.setattr(worker, "prepare", no_room)
    verdict = piloted.pilot(tiny, tmp_path / "pilot", SHARDED)
    assert verdict.ok, verdict.findings
    assert "there was no room" in next(one.why for one in verdict.not_checked if one.code == "U131")
    assert {row["phase"]: row["verdict"] for row in table(tmp_path / "pilot")}["load alone"] == "could not be checked"
    replicated = piloted.pilot(tiny, tmp_path / "ddp", {**SHARDED, "machine": {"processes": 2}})
    assert [finding.code for finding in replicated.stops] == ["M101"], "a replica needs the room of one process"


@pytest.fixture
def planted(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Verdict]:
    """The pilot of two processes that have a fault."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(SUPPORT), os.environ.get("PYTHONPATH", "")])))
    monkeypatch.setattr(processes, "_MODULE", "faulty_replica")
    piloted.in_this_process(monkeypatch)

    def run(fault: str) -> Verdict:
        monkeypatch.setenv("FAULT", fault)
        shutil.rmtree(tmp_path / "pilot", ignore_errors=True)
        return piloted.pilot(tiny, tmp_path / "pilot", {"machine": {"processes": 2}, "training.clip": None})

    return run


def test_processes_that_average_their_gradients_or_forget_moments_are_stopped(
    planted: Callable[[str], Verdict],
) -> None:
    verdict = planted("averages")
    stops = {finding.code: finding.observed for finding in verdict.stops}
    assert set(stops) == {"U131", "U132"}
    assert "of 2 processes (ddp) and of one is 0.5" in stops["U131"]
    assert "2 updates in 2 fresh processes differ" in stops["U132"]


def test_the_process_and_the_phase_in_which_memory_runs_out_are_named(
    planted: Callable[[str], Verdict], tmp_path: Path
) -> None:
    verdict = planted("memory")
    (stop,) = verdict.stops
    assert stop.code == "M101"
    assert "out of memory in update-2" in stop.observed
    assert "process 1 of 2: tried to allocate 2 GiB" in stop.observed
    assert {row["phase"]: row["verdict"] for row in table(tmp_path / "pilot")}["update-2"] == "failed"
