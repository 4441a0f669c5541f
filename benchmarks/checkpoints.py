"""What saving costs a training of SmolLM2-135M: LoRA and the whole model, alternating with updates that save nothing.

    python benchmarks/checkpoints.py [lora|full] [ROUNDS] [UPDATES]

Each round trains UPDATES of the example `orders` three times: without a checkpoint, with one that is written while the
training goes on, and with one that it waits for. What a checkpoint costs is the difference to the first; on the demo's
policy there is one every ten updates. A disk and a processor that others use blur it, so that the time for which the
training stood still is told too, and the processor time of the thread that writes.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from testigo.campaign import PlannedRun, load, run_id
from testigo.corpus import build
from testigo.model.base import locate
from testigo.tasks import task_for
from testigo.training import saving
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


def clocked(work: Callable[[], Any]) -> float:
    """Seconds of a work."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


class Writer:
    """The processor time of the threads that write."""

    def __init__(self) -> None:
        self.seconds = 0.0
        write = saving.Saver._write

        def timed(*arguments: Any) -> None:
            began = time.thread_time()
            write(*arguments)
            self.seconds += time.thread_time() - began

        saving.Saver._write = timed  # type: ignore[method-assign]


def main(method: str, rounds: int, n_updates: int) -> None:
    """Measure and print."""
    writer = Writer()
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

        ways = {"no checkpoint": updates, "written beside": beside, "waited for": waited_for}
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        stood: dict[str, list[float]] = {way: [] for way in ways}
        wrote: dict[str, list[float]] = {way: [] for way in ways}
        for round_number in range(rounds):
            for way in list(ways)[:: 1 if round_number % 2 else -1]:
                still, cpu = run.saver.seconds, writer.seconds
                seconds[way].append(clocked(ways[way]))
                stood[way].append(run.saver.seconds - still)
                wrote[way].append(writer.seconds - cpu)
                print(f"  {way}: {seconds[way][-1]:.2f} s, stood still {stood[way][-1]:.2f} s", flush=True)
        newest = max(path for path in run.checkpoints.iterdir() if path.name.isdigit())
        size = sum(path.stat().st_size for path in newest.iterdir())
    update = statistics.median(seconds["no checkpoint"]) / n_updates
    print(f"{method}: {size / 1e6:,.0f} MB a checkpoint, {update:.2f} s an update, medians of {rounds} rounds")
    for way in ("written beside", "waited for"):
        costs = [a - b for a, b in zip(seconds[way], seconds["no checkpoint"], strict=True)]
        cost, stands = statistics.median(costs), statistics.median(stood[way])
        share = cost / (UPDATES_BETWEEN * update)
        print(
            f"  {way}: costs {cost:.2f} s, {100 * share:.1f} % of {UPDATES_BETWEEN} updates; the training stands still "
            f"for {stands:.2f} s ({100 * stands / (UPDATES_BETWEEN * update):.1f} %); "
            f"{statistics.median(wrote[way]):.2f} s of processor time to write it"
        )


if __name__ == "__main__":
    main(
        sys.argv[1] if len(sys.argv) > 1 else "lora",
        int(sys.argv[2]) if len(sys.argv) > 2 else 3,
        int(sys.argv[3]) if len(sys.argv) > 3 else 3,
    )
