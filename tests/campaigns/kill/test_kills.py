"""The promise that matters most: what is killed goes on, and ends as what was not; `make kills` kills more."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kills
import psutil

from testigo.training.launchers.local import environment

if TYPE_CHECKING:
    from tiny import Tiny
    from whole import Finished

SEED = 20261130


def test_a_campaign_killed_in_each_of_its_phases_ends_bit_for_bit_as_one_never_killed(
    finished: Finished, tmp_path: Path
) -> None:  # C31, C36, C38
    import whole

    generator = random.Random(SEED)
    inside = sorted(generator.sample(range(2, 29), 2))
    phases = (
        "baseline",
        generator.choice(("pilot forward", "pilot overfit", "pilot export", "pilot resume")),
        f"training {inside[0]}",
        f"saving {inside[1]}",
        generator.choice(("ledger training 30", "evaluating")),
        generator.choice(("exporting", "proving", "dossier")),
    )
    whom = list(kills.WHOM)
    generator.shuffle(whom)
    planned = [
        kills.Kill(phase, min(kills.kill_in(phase, generator).after, 2.0), who)
        for phase, who in zip(phases, whom, strict=True)
    ]
    place = whole.make(tmp_path / "killed")
    survived = kills.survive(place, planned)
    # On a busy machine a phase may be over before its kill comes: that kill does not happen then.
    assert len(survived.killed) >= len(planned) // 2, survived
    kills.check_whole(place, whole.weights(finished.place), kills.N_UPDATES)


LONG = {
    "training.updates": 60,
    "training.validate_every": 10,
    "training.checkpoint": {"every": 7, "keep": 2},
    "model.adapter.dropout": 0.1,
    "machine": {"processes": 2},
}


def test_a_run_of_two_processes_killed_anywhere_ends_bit_for_bit_as_one_never_killed(
    tiny: Tiny, tmp_path: Path
) -> None:
    generator = random.Random(SEED)
    spec = tiny.spec(LONG)
    straight, killed = tmp_path / "straight" / "runs" / "run", tmp_path / "killed" / "runs" / "run"
    for folder in (straight, killed):
        spec.write(folder)
    assert _started(straight).wait() == 0
    phases = (f"training {generator.randint(3, 9)}", f"saving {generator.randint(14, 28)}", "validating 40")
    for phase, who in zip(phases, ("youngest", "all", "conductor"), strict=True):
        process = _started(killed)
        kill = kills.Kill(phase, kills.kill_in(phase, generator).after, who)
        kills.kill_once(process.pid, tmp_path / "killed", [kill])
        process.wait()
    again = _started(killed)
    assert again.wait() == 0, (killed / "log.txt").read_text()
    results = [json.loads((folder / "result.json").read_text()) for folder in (straight, killed)]
    assert results[0]["final_weights_sha256"] == results[1]["final_weights_sha256"]
    lines: list[list[dict[str, Any]]] = [_losses(folder) for folder in (straight, killed)]
    assert lines[0] == lines[1]
    assert [line["update"] for line in lines[1]] == [*range(1, 61)]
    assert not psutil.Process().children(recursive=True)


def _started(folder: Path) -> subprocess.Popen[bytes]:
    """The processes of a run as their launcher starts them; those of an earlier start end first."""
    with (folder / "log.txt").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "testigo.training.launchers.torchrun", "2", str(folder / "spec.json")],
            env={**environment(), "OMP_NUM_THREADS": "1", "TESTIGO_STARTER": str(os.getpid())},
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip


def _losses(folder: Path) -> list[dict[str, Any]]:
    from tiny import updates

    return [{name: line[name] for name in ("update", "loss", "gradient_norm", "rows")} for line in updates(folder)]
