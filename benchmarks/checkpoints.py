"""What saving costs a training of SmolLM2-135M: LoRA and the whole model, alternating with updates that save nothing.

    python benchmarks/checkpoints.py [lora|full] [ROUNDS] [UPDATES]

Each round trains UPDATES of the example `orders` three times: without a checkpoint, with one that is written while the
training goes on, and with one that it waits for. What a checkpoint costs is the difference to the first; on the demo's
policy there is one every ten updates. It is told by the clock, by the processor time of the process, and as the time
for which the training stood still. On a busy machine the difference drowns: a checkpoint by itself tells what it takes.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testigo.campaign import PlannedRun, load, run_id
from testigo.corpus import build
from testigo.model.base import locate
from testigo.tasks import task_for
from testigo.training.loop import Session
from testigo.training.prepare import prepare, session
from testigo.training.spec import RunSpec

ROOT = Path(__file__).resolve().parent.parent
UPDATES_BETWEEN = 10
"""On the demo's policy a checkpoint follows every validation that improves, at most."""


def made(method: str, folder: Path) -> Session:
    """The example's run, with its adapter or with the whole model to train."""
    text = (ROOT / "examples" / "orders" / "campaign.yaml").read_text(encoding="utf-8")
    if method == "full":
        text = text.replace("{method: lora, rank: 16, alpha: 32, targets: all-linear}", "{method: full}")
    for name in ("orders.jsonl", "order.schema.json"):
        (folder / name).symlink_to(ROOT / "examples" / "orders" / name)
    (folder / "campaign.yaml").write_text(text, encoding="utf-8")
    campaign = load(folder / "campaign.yaml")
    task, base = task_for(campaign), locate(campaign.model.base, relative_to=folder)
    corpus = build(campaign, lambda _: folder / "corpus", lambda row: task.problems(row.fields))
    planned = PlannedRun("control", 0, campaign)
    name = run_id(planned, corpus=corpus.fingerprint, base=base.digest)
    spec = RunSpec(name, "control", 0, campaign.to_json(), str(folder), str(corpus.folder), base.digest)
    return session(spec, prepare(spec), folder / "run")


@dataclass(frozen=True)
class Cost:
    """Of some updates [s]: by the clock, of processors, and without any progress of the training."""

    clock: float
    processor: float
    still: float


def measured(run: Session, work: Callable[[], Any]) -> Cost:
    """What a work takes."""
    still, clock, processor = run.saver.seconds, time.perf_counter(), time.process_time()
    work()
    return Cost(time.perf_counter() - clock, time.process_time() - processor, run.saver.seconds - still)


def main(method: str, rounds: int, n_updates: int) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as name:
        run = made(method, Path(name))
        run.model.train()
        run.step(1)
        run.save()
        number = iter(range(2, 1_000_000))

        def updates() -> None:
            for _ in range(n_updates):
                run.step(next(number))

        def beside() -> None:
            run.begin_save()
            updates()
            run.saver.finish()

        def waited_for() -> None:
            run.save()
            updates()

        ways = {"no checkpoint": updates, "written beside": beside, "waited for": waited_for, "by itself": run.save}
        costs: dict[str, list[Cost]] = {way: [] for way in ways}
        for round_number in range(rounds):
            for way in list(ways)[:: 1 if round_number % 2 else -1]:
                costs[way].append(measured(run, ways[way]))
                print(f"  {way}: {costs[way][-1]}", flush=True)
        newest = max(path for path in run.checkpoints.iterdir() if path.name.isdigit())
        size = sum(path.stat().st_size for path in newest.iterdir())
    without = {of: statistics.median(getattr(c, of) for c in costs["no checkpoint"]) for of in ("clock", "processor")}
    print(
        f"{method}: {size / 1e6:,.0f} MB a checkpoint; an update takes {without['clock'] / n_updates:.2f} s, "
        f"{without['processor'] / n_updates:.2f} s of processors; medians of {rounds} rounds"
    )
    for way in ("written beside", "waited for", "by itself"):
        told = []
        for of, name in (("clock", "by the clock"), ("processor", "of processors")):
            more = statistics.median(getattr(cost, of) for cost in costs[way])
            more -= 0.0 if way == "by itself" else without[of]
            told.append(f"{more:.2f} s {name} ({100 * more / (UPDATES_BETWEEN * without[of] / n_updates):.1f} %)")
        still = statistics.median(cost.still for cost in costs[way])
        told.append(
            f"stands still {still:.2f} s ({100 * still / (UPDATES_BETWEEN * without['clock'] / n_updates):.1f} %)"
        )
        print(f"  {way}: {', '.join(told)}, of {UPDATES_BETWEEN} updates")


if __name__ == "__main__":
    main(
        sys.argv[1] if len(sys.argv) > 1 else "lora",
        int(sys.argv[2]) if len(sys.argv) > 2 else 3,
        int(sys.argv[3]) if len(sys.argv) > 3 else 3,
    )
