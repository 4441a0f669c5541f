"""`testigo run` killed again and again, at seeded random instants over all its phases, and started again each time.

``python tests/campaigns/kill/kills.py N [SEED] [--cold]`` kills N times, in as many campaigns as that takes, every
other one trained by two processes, and compares each one's weights with those of a campaign that was never killed. What
was not hit yet comes first, so that a hundred kills hit every phase; the summary counts them.
``kills.py --planned FILE.json`` does to one campaign what a test planned.

A kill costs a start of what it ended, most of which is loading torch: processes are begun with that done (`warm`),
unless `--cold` asks for those that a user starts. The tests kill a few warm ones here, and a cold one in `test_clock`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import textwrap
import time
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
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
STOP_SECONDS = 30.0
"""The promise: so long after a signal a campaign has ended, as interrupted."""


@dataclass(frozen=True)
class Kill:
    """When and whom: as soon as a phase is seen, then after a while [s]; everybody, or one process of them.

    `asked` and `ended` are no kills: the conductor gets what Ctrl-C sends, and what a machine that is taken away sends.
    """

    phase: str
    after: float
    whom: str

    @property
    def is_kill(self) -> bool:
        """Whether it is a SIGKILL, and no signal that is heard."""
        return self.whom not in ASKED

    def __str__(self) -> str:
        what = f"SIGKILL to {self.whom}" if self.is_kill else f"{ASKED[self.whom].name} to the conductor"
        return f"{what}, {self.after:.3f} s into {self.phase}"


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
    "pilot load": 3.0, "loading": 6.0, "saving": 0.02, "validating": 0.1, "ledger": 0.01, "handing over": 0.005,
}  # fmt: skip


INSIDE = ("training", "saving", "validating")
EVERY = (*BEFORE, *INSIDE, *AFTER)
"""Every phase that can be hit, in the campaign's order; those of the training at any of its updates."""
MORE_CAMPAIGNS = 4
"""So many are killed beyond the number asked for, in the phases that nothing hit yet: some last for milliseconds."""
ENOUGH = 100
"""From so many kills on every phase is to be hit."""


def phase_of(kill: Kill) -> str:
    """The phase that a kill counts for."""
    return kill.phase if kill.phase in EVERY else kill.phase.partition(" ")[0]


def random_kills(
    generator: random.Random, missed: Collection[str] = (), *, share: float = 0.6, n_training: int = 8
) -> list[Kill]:
    """A share of the phases before and after the training, and some instants of it, in the campaign's own order.

    Those that nothing hit yet are among them all, and are killed as soon as they are seen.
    """
    updates = sorted(
        (name, generator.randint(1, N_UPDATES - 1))
        for name in [*(one for one in INSIDE if one in missed), *generator.choices(INSIDE, k=n_training)][:n_training]
    )
    inside = [f"{name} {_validated(n) if name == 'validating' else n}" for name, n in sorted(updates, key=_at)]
    chosen = [
        [phase for phase in phases if generator.random() < share or phase in missed] for phases in (BEFORE, AFTER)
    ]
    kills = [kill_in(phase, generator) for phase in (*chosen[0], *inside, *chosen[1])]
    return [replace(one, after=0.0, whom="all") if phase_of(one) in missed else one for one in kills]


def some_of(planned: list[Kill], most: int, generator: random.Random, missed: Collection[str] = ()) -> list[Kill]:
    """So many of them at most, in their order: the last campaign need not be killed more often than was asked for.

    What nothing hit yet stays.
    """
    first = [k for k, one in enumerate(planned) if phase_of(one) in missed]
    others = [k for k in range(len(planned)) if k not in first]
    return [
        planned[k] for k in sorted([*first, *generator.sample(others, max(0, min(most - len(first), len(others))))])
    ]


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
    """How often a campaign really was killed until it came to its end, and what it then did and said.

    `stop_seconds` is how long each signal that is heard took to end it.
    """

    killed: tuple[Kill, ...]
    exit_codes: tuple[int, ...]
    stop_seconds: tuple[float, ...]
    said: str


def survive(place: Place, kills: Sequence[Kill], tell: Callable[[Kill, int], object] = lambda *_: None) -> Survived:
    """Run a campaign to its end, killed on the way. A kill whose phase is over when it would come does not happen."""
    waiting, killed, codes, seconds, said = list(kills), [], [], [], []
    while True:
        process = place.start("run", "--json", "--yes")
        done = kill_once(process.pid, place.workspace, waiting)
        began = time.monotonic()
        out, err = process.communicate(timeout=GIVE_UP_SECONDS)
        codes.append(process.returncode)
        said.append(err)
        assert "Traceback" not in err, err
        if not done:
            assert process.returncode == 0, f"exit code {process.returncode}\n{out}\n{err}"
            return Survived(tuple(killed), tuple(codes), tuple(seconds), "".join(said))
        (kill,) = done
        if not kill.is_kill:
            seconds.append(time.monotonic() - began)
            assert seconds[-1] < STOP_SECONDS, f"{kill}: it ended after {seconds[-1]:.0f} s\n{err}"
        # 0 where it had ended before; a conductor whose worker was killed is interrupted
        assert process.returncode in ((-signal.SIGKILL, 3, 0) if kill.is_kill else (3, 0)), (
            f"{kill}: exit code {process.returncode}\n{out}\n{err}"
        )
        killed.append(kill)
        tell(kill, process.returncode)


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


@dataclass
class Tally:
    """How far the killing is, for whoever waits for it."""

    n_kills: int
    began: float = field(default_factory=time.monotonic)
    killed: list[Kill] = field(default_factory=list)
    heard: list[Kill] = field(default_factory=list)
    stop_seconds: list[float] = field(default_factory=list)
    by_processes: Counter[int] = field(default_factory=Counter)
    n_campaigns: int = 0

    @property
    def missed(self) -> list[str]:
        """The phases that nothing hit yet."""
        hit = set(map(phase_of, self.killed))
        return [phase for phase in EVERY if phase not in hit]

    @property
    def is_enough(self) -> bool:
        """Whether as many were killed as was asked for and, of many, some in every phase."""
        return len(self.killed) >= self.n_kills and not (self.missed and self.n_kills >= ENOUGH)

    def tell(self, kill: Kill, exit_code: int) -> None:
        """One interruption, what came of it, and the time left."""
        (self.killed if kill.is_kill else self.heard).append(kill)
        elapsed = time.monotonic() - self.began
        left = elapsed / max(1, len(self.killed)) * max(0, self.n_kills - len(self.killed))
        far = f"{len(self.killed)} of {self.n_kills} kills, {_in_words(elapsed)}, about {_in_words(left)} left"
        print(f"  {far}: {kill}; exit code {exit_code}", flush=True)

    def summary(self) -> str:
        """What was done and found, when all went well."""
        phases = Counter(map(phase_of, self.killed))
        missed = f"  not in: {', '.join(self.missed)}" if self.missed else f"  each of the {len(EVERY)} phases was hit"
        heard = ""
        if self.stop_seconds:
            heard = f", at most {max(self.stop_seconds):.1f} s after it (promised: {STOP_SECONDS:.0f})"
        return "\n".join([
            "",
            f"{len(self.killed)} kills in {self.n_campaigns} campaigns, {_in_words(time.monotonic() - self.began)}: "
            f"{self.by_processes[1]} with one process, {self.by_processes[2]} with two",
            *textwrap.wrap(
                f"in:    {', '.join(f'{name}: {phases[name]}' for name in EVERY if phases[name])}",
                width=100, initial_indent="  ", subsequent_indent=" " * 9,
            ),
            missed,
            f"  whom:  {', '.join(f'{who} {n}' for who, n in Counter(k.whom for k in self.killed).most_common())}",
            f"  heard: {len(self.heard)} SIGINT and SIGTERM ended a campaign as interrupted{heard}",
            "Each campaign went on and ended with the weights of one that nobody killed, bit for bit; every ledger",
            "verifies, every run is there with all of its updates, every dossier verifies, nothing half-made is left.",
        ])  # fmt: skip


def _in_words(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def main(n_kills: int, seed: int) -> None:
    """Kill, tell how far it is, and say how it went. The folder of a campaign that failed stays."""
    import whole
    from transformers.utils import logging

    logging.disable_progress_bar()
    folder = Path(tempfile.mkdtemp(prefix="kills-"))
    print(f"{n_kills} kills, seed {seed}, in {folder}", flush=True)
    expected: dict[int, tuple[str, str]] = {}
    for processes, changes in PROCESSES.items():
        print(f"a campaign that nobody kills, {processes} process{'es' if processes > 1 else ''}", flush=True)
        reference = whole.make(folder / f"reference {processes}", changes)
        survive(reference, [])
        expected[processes] = whole.weights(reference)
    tally = Tally(n_kills)
    more = MORE_CAMPAIGNS
    for number in itertools.count(1):
        processes = 1 + number % 2
        generator = random.Random(f"{seed} {number}")
        missed = tally.missed if tally.killed else ()
        planned = random_kills(generator, missed)
        planned = some_of(planned, max(0, n_kills - len(tally.killed) + 2), generator, missed)
        print(f"campaign {number}, {processes} process{'es' if processes > 1 else ''}", flush=True)
        place = whole.make(folder / str(number), PROCESSES[processes])
        survived = survive(place, planned, tally.tell)
        apart(lambda made=place, own=expected[processes]: check_whole(made, own, N_UPDATES))
        tally.n_campaigns += 1
        tally.by_processes[processes] += sum(kill.is_kill for kill in survived.killed)
        tally.stop_seconds += survived.stop_seconds
        shutil.rmtree(place.folder)
        more -= len(tally.killed) >= n_kills
        if tally.is_enough or not more:
            break
    shutil.rmtree(folder)
    print(tally.summary())


def as_planned(file: Path) -> None:
    """What a test planned: the campaign's folder, its kills, and the weights that it has to end with.

    What really happened is written into the same file.
    """
    from whole import Place

    plan = json.loads(file.read_text())
    place = Place(Path(plan["folder"]))
    survived = survive(place, [Kill(**kill) for kill in plan["kills"]])
    apart(lambda: check_whole(place, tuple(plan["expected"]), N_UPDATES))
    file.write_text(json.dumps({**asdict(survived), "warm": "warm" in sys.modules}))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2] / "support"))
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
    os.environ |= {"TOKENIZERS_PARALLELISM": "false"}  # threads are not forked
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("n_kills", type=int, nargs="?", default=100, metavar="N")
    parser.add_argument("seed", type=int, nargs="?", default=0, metavar="SEED")
    parser.add_argument("--cold", action="store_true", help="start processes as a user does")
    parser.add_argument("--planned", type=Path, metavar="FILE", help="one campaign, as a test planned")
    asked = parser.parse_args()
    if not asked.cold:
        import warm

        warm.begin()
    if asked.planned:
        as_planned(asked.planned)
    else:
        main(asked.n_kills, asked.seed)
