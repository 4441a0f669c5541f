"""What a worker's process sees of the machine, and how its end is told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from testigo.training.launchers import local


@pytest.mark.parametrize(
    ("seen", "devices", "shown"),
    [(None, [1], "1"), ("2,5", [0], "2"), ("2,5", [1], "5"), ("GPU-a,GPU-b", [1], "GPU-b"), ("2,5,7,8", [2, 3], "7,8")],
)
def test_a_run_sees_the_devices_of_its_place(
    monkeypatch: pytest.MonkeyPatch, seen: str | None, devices: list[int], shown: str, tmp_path: Path
) -> None:
    monkeypatch.delenv(local.VISIBLE, raising=False)
    if seen is not None:
        monkeypatch.setenv(local.VISIBLE, seen)
    (tmp_path / "says.py").write_text("import os; print(os.environ.get('CUDA_VISIBLE_DEVICES', 'all'))")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    for _ in local.start("says", log=tmp_path / "log.txt", devices=devices):
        pass
    assert (tmp_path / "log.txt").read_text().strip() == shown
    assert local.only(None) == {}


def test_an_end_by_sigkill_is_for_memory_only_when_the_system_counted_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "dies.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    counts = iter([7, 7, 7, 8])
    monkeypatch.setattr(local, "n_killed_for_memory", lambda: next(counts))
    for expected in (False, True):
        with pytest.raises(local.WorkerDied) as died:
            local.finish("dies", log=tmp_path / "log.txt")
        assert died.value.for_memory is expected


def test_the_systems_own_count_is_read() -> None:
    with open("/proc/vmstat", encoding="ascii") as file:
        whole = next((int(line.split()[1]) for line in file if line.startswith("oom_kill ")), 0)
    assert local.n_killed_for_memory() >= whole
    script = "from testigo.training.launchers import local; print(local.n_killed_for_memory())"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout.strip().isdigit()


def test_threads_of_a_worker_wait_for_a_moment_unless_the_user_says_how(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):
        monkeypatch.delenv(name, raising=False)
    assert local.environment()["GOMP_SPINCOUNT"] == "10000"
    monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")
    assert "GOMP_SPINCOUNT" not in local.environment()
    monkeypatch.setenv("GOMP_SPINCOUNT", "500")
    assert local.environment()["GOMP_SPINCOUNT"] == "500"
