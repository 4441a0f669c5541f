"""`testigo run` killed again and again, at seeded random instants over all its phases, and started again each time.

``python tests/campaigns/kills.py N [SEED]`` kills N times, in as many campaigns as that takes, and compares each one's
weights with those of a campaign that was never killed. The tests kill a few times.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from whole import Place

WHOM = ("all", "conductor", "worker", "youngest", "asked")
POLL_SECONDS = 0.002
GIVE_UP_SECONDS = 1800.0


@dataclass(frozen=True)
class Kill:
    """When and whom: as soon as a phase is seen, then after a while [s]; everybody, or one process of them.

    `asked` is no kill: the conductor gets what Ctrl-C sends.
    """

    phase: str
    after: float
    whom: str


def is_seen(phase: str, workspace: Path) -> bool:
    """Whether a campaign is at a phase, or past it, by what lies in its workspace."""
    name, _, detail = phase.partition(" ")
    if name == "training":
        return any(_n_lines(path) >= int(detail) for path in workspace.glob("runs/*/steps.jsonl"))
    if name == "pilot":
        wanted = f'"now": "{detail}"'
        return any(wanted in _text(path) for path in workspace.glob("pilot/*/phases.json"))
    patterns = {
        "opening": "ledger.sqlite",
        "corpus": "corpus/.*.new",
        "baseline": "baseline/*/predictions/validation.spec.json",
        "saving": "runs/*/checkpoints/.[0-9]*",
        "evaluating": "runs/*/predictions/validation.spec.json",
        "comparing": "comparison.json",
        "exporting": "runs/*/export.json",
        "proving": "runs/*/.export.*/testigo.json",
        "handing over": ".adapter",
        "dossier": ".dossier.new",
    }
    return any(True for _ in workspace.glob(patterns[phase]))


PHASES = (
    "opening", "corpus", "baseline", "pilot forward", "pilot overfit", "pilot export", "pilot resume", "training 1",
    "training 7", "saving", "training 16", "training 29", "evaluating", "comparing", "exporting", "proving",
    "handing over", "dossier",
)  # fmt: skip
# Long phases are killed anywhere within, short ones at once [s].
LASTS = {"baseline": 6.0, "evaluating": 6.0, "exporting": 6.0, "proving": 4.0, "pilot export": 5.0, "pilot resume": 6.0}


def random_kills(n: int, generator: random.Random) -> list[Kill]:
    """So many kills in the order in which a campaign meets their phases."""
    phases = sorted((generator.choice(PHASES) for _ in range(n)), key=PHASES.index)
    return [Kill(phase, generator.uniform(0.0, LASTS.get(phase, 0.3)), generator.choice(WHOM)) for phase in phases]


@dataclass(frozen=True)
class Survived:
    """How often a campaign really was killed until it came to its end, and all that it then said."""

    killed: tuple[Kill, ...]
    exit_codes: tuple[int, ...]
    said: str


def survive(place: Place, kills: Sequence[Kill], say: Callable[[str], object] = lambda text: None) -> Survived:
    """Run a campaign to its end, killed on the way. A kill whose phase is over when it would come does not happen."""
    waiting, killed, codes, said = list(kills), [], [], []
    while True:
        process = place.start("run", "--json", "--yes")
        done = _run_and_kill(process.pid, place.workspace, waiting)
        out, err = process.communicate(timeout=GIVE_UP_SECONDS)
        codes.append(process.returncode)
        said.append(err)
        killed += done
        say(f"  {done[0] if done else 'no kill'}: exit code {process.returncode}")
        if not done:
            assert process.returncode == 0, f"exit code {process.returncode}\n{out}\n{err}"
            return Survived(tuple(killed), tuple(codes), "".join(said))
        assert process.returncode in (-signal.SIGKILL, 0, 3), f"exit code {process.returncode}\n{out}\n{err}"
        assert "Traceback" not in err, err


def _run_and_kill(pid: int, workspace: Path, waiting: list[Kill]) -> list[Kill]:
    """The first kill whose phase comes; it is taken from those that wait, with all of phases already past."""
    conductor = psutil.Process(pid)
    seen: float | None = None
    while waiting and conductor.is_running() and conductor.status() != psutil.STATUS_ZOMBIE:
        if seen is None and is_seen(waiting[0].phase, workspace):
            seen = time.monotonic()
        if seen is not None and time.monotonic() - seen >= waiting[0].after and _kill(conductor, waiting[0].whom):
            return [waiting.pop(0)]
        time.sleep(POLL_SECONDS)
    waiting.clear()
    return []


def _kill(conductor: psutil.Process, whom: str) -> bool:
    """Whether there was somebody to kill."""
    with suppress(psutil.NoSuchProcess):
        below = conductor.children(recursive=True)
        if whom == "asked":
            conductor.send_signal(signal.SIGINT)
            return True
        everybody = [conductor, *below]
        doomed = {"all": everybody, "conductor": [conductor], "worker": below[:1], "youngest": below[-1:]}[whom]
        for process in doomed:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
        return bool(doomed)
    return False


def _n_lines(path: Path) -> int:
    return _text(path).count('"loss"')


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


def check_whole(place: Place, expected: tuple[str, str], n_updates: int) -> None:
    """A campaign that was killed came to the same end as one that was not, and its record is whole."""
    import whole

    assert whole.weights(place) == expected
    (run,) = place.testigo("status", "--json").document["runs"]
    assert (run["state"], run["updates"]) == ("completed", n_updates)
    assert [line["update"] for line in place.steps(place.only_run)] == [*range(1, n_updates + 1)]
    assert place.testigo("ledger verify", "--json").document["ok"] is True
    dossier = whole.testigo("verify", str(place.workspace / "dossier"), "--no-control", "--json")
    assert dossier.code == 0, dossier.out
    half = ("runs/*/.export.*", "runs/*/checkpoints/.*", "corpus/.*", ".dossier.new", ".dossier.old", ".adapter")
    assert not [path for pattern in half for path in place.workspace.glob(pattern)]


def campaigns(n_kills: int, seed: int) -> Iterator[list[Kill]]:
    """Lists of kills, a campaign each, until there are so many."""
    generator = random.Random(seed)
    while n_kills > 0:
        n = min(generator.randint(3, 7), n_kills)
        n_kills -= n
        yield random_kills(n, generator)


def main(n_kills: int, seed: int) -> None:
    """Kill, and say how it went."""
    import whole

    os.environ.update({"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"})
    with tempfile.TemporaryDirectory() as folder:
        reference = whole.make(Path(folder) / "reference")
        survive(reference, [])
        expected, n_killed, number = whole.weights(reference), 0, 0
        while n_killed < n_kills:
            for kills in campaigns(n_kills - n_killed, seed + number):
                number += 1
                print(f"campaign {number}", flush=True)
                place = whole.make(Path(folder) / str(number))
                n_killed += len(survive(place, kills, lambda text: print(text, flush=True)).killed)
                check_whole(place, expected, 30)
    print(f"killed {n_killed} times in {number} campaigns: the same weights each time, bit for bit")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
