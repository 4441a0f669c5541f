"""The promise that matters most: what is killed goes on, and ends as what was not; `make kills` kills more."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kills
import psutil

from testigo.training.launchers.local import environment

if TYPE_CHECKING:
    from tiny import Tiny
    from whole import Finished, Place

SEED = 20261130


def test_a_campaign_killed_and_stopped_in_each_of_its_phases_ends_bit_for_bit_as_one_never_killed(
    finished: Finished, tmp_path: Path
) -> None:  # C31, C36, C38
    """Each phase is interrupted; what is killed, and what is asked to end, changes places with the seed."""
    import whole

    generator = random.Random(SEED)
    inside = sorted(generator.sample(range(2, 29), 3))
    phases = (
        "corpus", "baseline", generator.choice(("pilot forward", "pilot overfit", "pilot export")), "pilot resume",
        f"training {inside[0]}", f"saving {inside[1]}", f"validating {kills._validated(inside[2])}",
        generator.choice(("ledger training 30", "evaluating")), "exporting", generator.choice(("proving", "dossier")),
    )  # fmt: skip
    whom = [*kills.WHOM, *kills.ASKED, "all", "ended"]
    generator.shuffle(whom)
    place = whole.make(tmp_path / "killed")
    survived = interrupted(place, list(zip(phases, whom, strict=True)), finished, generator)
    # On a busy machine a phase may be over before its kill comes: that kill does not happen then.
    assert len(survived["killed"]) >= len(phases) // 2, survived
    assert {kill["whom"] for kill in survived["killed"]} & {*kills.ASKED}, "and some are asked to end, within 30 s"
    assert len(survived["exit_codes"]) == len(survived["killed"]) + 1


def interrupted(
    place: Place, planned: list[tuple[str, str]], finished: Finished, generator: random.Random
) -> dict[str, Any]:
    """What came of kills in some phases of a campaign, each of somebody, in processes that begin warm."""
    import whole

    instants = [(phase, min(kills.kill_in(phase, generator).after, 2.0), who) for phase, who in planned]
    plan = place.folder.with_name("plan.json")
    plan.write_text(json.dumps({
        "folder": str(place.folder), "expected": whole.weights(finished.place),
        "kills": [asdict(kills.Kill(*instant)) for instant in instants],
    }))  # fmt: skip
    done = subprocess.run(
        [sys.executable, kills.__file__, "--planned", str(plan)], text=True, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    came_of_it: dict[str, Any] = json.loads(plan.read_text())
    return came_of_it


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
    for phase, who in (
        (f"training {generator.randint(3, 9)}", "youngest"),
        (f"saving {generator.randint(14, 28)}", "all"),
    ):
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
