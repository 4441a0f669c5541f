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


def test_a_hundred_kills_are_spread_over_every_phase_and_their_summary_counts_them() -> None:
    """What was not hit comes first, so that three campaigns plan all phases though some kills come too late."""
    tally = kills.Tally(kills.ENOUGH)
    for number in range(5):
        generator = random.Random(number)
        missed = tally.missed if tally.killed else ()
        planned = kills.random_kills(generator, missed)
        assert {kills.phase_of(kill) for kill in planned} >= {*missed}
        assert [kills.EVERY.index(kills.phase_of(kill)) >= len(kills.BEFORE) for kill in planned] == sorted(
            kills.EVERY.index(kills.phase_of(kill)) >= len(kills.BEFORE) for kill in planned
        )
        for kill in kills.some_of(planned, 24, generator, missed):
            if generator.random() < 0.8 and kill.is_kill:  # the others came when the phase was over
                tally.killed.append(kill)
    assert tally.missed == []
    told = tally.summary()
    assert f"each of the {len(kills.EVERY)} phases was hit" in told
    assert all(f"{phase}: " in " ".join(told.split()) for phase in kills.EVERY)
    tally.killed = [kill for kill in tally.killed if kills.phase_of(kill) not in ("saving", "pilot export")]
    assert "not in: pilot export, saving" in tally.summary()
    assert not tally.is_enough


def test_processes_that_start_cold_as_a_users_do_are_killed_and_go_on(finished: Finished, tmp_path: Path) -> None:
    """The flag `--cold`, on a campaign that has only its dossier to write."""
    import shutil

    place = finished.place.copy(tmp_path / "cold")
    shutil.rmtree(place.workspace / "dossier")
    survived = interrupted(place, [("dossier", "all")], finished, random.Random(SEED), "--cold")
    assert survived["warm"] is False
    assert [kill["phase"] for kill in survived["killed"]] == ["dossier"]


def interrupted(
    place: Place, planned: list[tuple[str, str]], finished: Finished, generator: random.Random, *options: str
) -> dict[str, Any]:
    """What came of kills in some phases of a campaign, each of somebody, in processes that begin warm by default."""
    import whole

    instants = [(phase, min(kills.kill_in(phase, generator).after, 2.0), who) for phase, who in planned]
    plan = place.folder.with_name("plan.json")
    plan.write_text(json.dumps({
        "folder": str(place.folder), "expected": whole.weights(finished.place),
        "kills": [asdict(kills.Kill(*instant)) for instant in instants],
    }))  # fmt: skip
    done = subprocess.run(
        [sys.executable, kills.__file__, "--planned", str(plan), *options], text=True, capture_output=True, check=False
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
