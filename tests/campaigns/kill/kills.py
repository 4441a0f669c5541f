"""`testigo run` killed again and again, at seeded random instants over all its phases, and started again each time.

``python tests/campaigns/kill/kills.py N [SEED] [--cold]`` kills N times, in as many campaigns as that takes, every
other one trained by two processes, and compares each one's weights with those of a campaign that was never killed.

A kill costs a start of what it ended, most of which is loading torch: processes are begun with that done (`warm`),
unless `--cold` asks for those that a user starts. The tests kill a few of these.
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

if TYPE_CHECKING:
    from whole import Place

WHOM = ("all", "conductor", "worker", "youngest", "asked", "ended")
ASKED = {"asked": signal.SIGINT, "ended": signal.SIGTERM}
POLL_SECONDS = 0.003
AHEAD = 4
"""So many of the next kills are looked out for: where a later phase is seen, the former are over."""
PROCESSES: dict[int, dict[str, Any]] = {1: {}, 2: {"machine": {"processes": 2}}}
"""By how many processes a campaign is trained, and what its file says then."""
GIVE_UP_SECONDS = 1800.0


@dataclass(frozen=True)
class Kill:
    """When and whom: as soon as a phase is seen, then after a while [s]; everybody, or one process of them.

    `asked` and `ended` are no kills: the conductor gets what Ctrl-C sends, and what a machine that is taken away sends.
    """

    phase: str
    after: float
    whom: str


PATTERNS = {
    "opening": "ledger.sqlite",
    "corpus": "corpus/.*.new",
    "baseline": "baseline/*/predictions/validation.spec.json",
    "pilot": "pilot/*/phases.json",
    "loading": "runs/*/spec.json",
    "saving": "runs/*/checkpoints/.[0-9]*",
    "training": "runs/*/steps.jsonl",
    "validating": "runs/*/steps.jsonl",
    "evaluating": "runs/*/predictions/validation.spec.json",
    "comparing": "comparison.json",
    "exporting": "runs/*/export.json",
    "proving": "runs/*/.export.*/testigo.json",
    "handing over": ".adapter",
    "dossier": ".dossier.new",
}
"""What lies in the workspace when a phase has begun."""


def is_seen(phase: str, workspace: Path, since: float) -> bool:
    """Whether a campaign that was started at a time [s] has come to a phase, by what lies in its workspace."""
    name = next(name for name in ("ledger", *PATTERNS) if phase.startswith(name))
    detail = phase.removeprefix(name).strip()
    if name == "ledger":  # it is in use, after a phase has begun
        return is_seen(detail, workspace, since) and (workspace / "ledger.sqlite-wal").exists()
    new = [path for path in workspace.glob(PATTERNS[name]) if _time_of(path) >= since]
    if name == "pilot":
        return any(f'"now": "{detail}"' in _text(path) for path in new)
    if name == "saving":
        return any(int(path.name.split(".")[1]) >= int(detail) for path in new)
    return any(_n_lines(path) >= int(detail) for path in new) if detail else bool(new)


BEFORE = (
    "opening", "corpus", "ledger corpus", "baseline", "ledger baseline", "pilot load", "pilot forward", "pilot overfit",
    "pilot export", "pilot resume", "loading", "ledger loading",
)  # fmt: skip
AFTER = (
    "ledger training 30", "evaluating", "ledger evaluating", "comparing", "exporting", "proving", "handing over",
    "dossier",
)  # fmt: skip
N_UPDATES, VALIDATED_EVERY = 30, 5
# Long phases are killed anywhere within, short ones at once [s].
LASTS = {
    "baseline": 6.0, "evaluating": 6.0, "exporting": 6.0, "proving": 4.0, "pilot export": 5.0, "pilot resume": 6.0,
    "pilot load": 3.0, "loading": 6.0, "saving": 0.02, "validating": 0.1, "ledger": 0.01,
}  # fmt: skip


def random_kills(generator: random.Random, *, share: float = 0.6, n_training: int = 8) -> list[Kill]:
    """A share of the phases before and after the training, and some instants of it, in the campaign's own order."""
    updates = sorted(
        (generator.choice(("training", "saving", "validating")), generator.randint(1, N_UPDATES - 1))
        for _ in range(n_training)
    )
    inside = [f"{name} {_validated(n) if name == 'validating' else n}" for name, n in sorted(updates, key=_at)]
    chosen = [[phase for phase in phases if generator.random() < share] for phases in (BEFORE, AFTER)]
    return [kill_in(phase, generator) for phase in (*chosen[0], *inside, *chosen[1])]


def kill_in(phase: str, generator: random.Random) -> Kill:
    """A kill at a random instant of a phase, of a random victim."""
    lasts = LASTS.get(phase, LASTS.get(phase.partition(" ")[0], 0.3))
    (whom,) = generator.choices(WHOM, [1 if who in ASKED else 4 for who in WHOM])
    return Kill(phase, generator.uniform(0.0, lasts), whom)


def _validated(update: int) -> int:
    return max(update - update % VALIDATED_EVERY, VALIDATED_EVERY)


def _at(kill: tuple[str, int]) -> int:
    return _validated(kill[1]) if kill[0] == "validating" else kill[1]


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
        done = kill_once(process.pid, place.workspace, waiting)
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


def kill_once(pid: int, workspace: Path, waiting: list[Kill]) -> list[Kill]:
    """The first kill whose phase comes; it is taken from those that wait, with all of phases already past."""
    conductor, since = psutil.Process(pid), time.time()
    while waiting and conductor.is_running() and conductor.status() != psutil.STATUS_ZOMBIE:
        seen = [kill for kill in waiting[:AHEAD] if is_seen(kill.phase, workspace, since)]
        if seen:
            del waiting[: waiting.index(seen[-1])]
            time.sleep(waiting[0].after)
            if _kill(conductor, waiting[0].whom):
                return [waiting.pop(0)]
            del waiting[0]
        time.sleep(POLL_SECONDS)
    waiting.clear()  # the campaign came to its end before
    return []


def _kill(conductor: psutil.Process, whom: str) -> bool:
    """Whether there was somebody to kill."""
    with suppress(psutil.NoSuchProcess):
        below = conductor.children(recursive=True)
        if whom in ASKED:
            conductor.send_signal(ASKED[whom])
            return True
        everybody = [conductor, *below]
        doomed = {"all": everybody, "conductor": [conductor], "worker": below[:1], "youngest": below[-1:]}[whom]
        for process in doomed:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
        return bool(doomed)
    return False


def _time_of(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


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
    half = (
        "runs/*/.export.*",
        "runs/*/checkpoints/.*",
        "runs/*/checkpoints/*.replaced",
        "corpus/.*",
        ".dossier.new",
        ".dossier.old",
        ".adapter",
    )
    assert not [path for pattern in half for path in place.workspace.glob(pattern)]


def apart(work: Callable[[], None]) -> None:
    """Do a work in a process of its own: what comes to life in it, such as threads that draw, is not forked later."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            if code:
                traceback.print_exc()
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    assert status == 0, "the campaign did not end as one that was never killed"


def main(n_kills: int, seed: int) -> None:
    """Kill, and say how it went."""
    import whole

    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        expected: dict[int, tuple[str, str]] = {}
        for processes, changes in PROCESSES.items():
            reference = whole.make(Path(folder) / f"reference {processes}", changes)
            survive(reference, [])
            expected[processes] = whole.weights(reference)
        n_killed = dict.fromkeys(PROCESSES, 0)
        numbers = itertools.count(1)
        while sum(n_killed.values()) < n_kills:
            number = next(numbers)
            processes = 1 + number % 2
            planned = random_kills(random.Random(f"{seed} {number}"))
            print(f"campaign {number}, {processes} processes", flush=True)
            place = whole.make(Path(folder) / str(number), PROCESSES[processes])
            killed = survive(place, planned, lambda text: print(text, flush=True)).killed
            n_killed[processes] += sum(kill.whom not in ASKED for kill in killed)
            apart(lambda made=place, own=expected[processes]: check_whole(made, own, N_UPDATES))
            shutil.rmtree(place.folder)
            print(f"  killed {sum(n_killed.values())} times in {time.monotonic() - began:.0f} s", flush=True)
    print(
        f"killed {n_killed[1]} times plain and {n_killed[2]} times with two processes, in {number} campaigns: "
        "the same weights each time, bit for bit; every ledger verifies, no run is missing"
    )


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2] / "support"))
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
    os.environ |= {"TOKENIZERS_PARALLELISM": "false"}  # threads are not forked
    if "--cold" not in sys.argv:
        import warm

        warm.begin()
    n_kills, seed, *_ = [*(int(given) for given in sys.argv[1:] if given.isdigit()), 0]
    main(n_kills, seed)
