"""What the watch costs a Trainer: its own time an update, and the run with and without it, alternating.

    python benchmarks/watch.py [UPDATES] [ROUNDS]

The first number is the time spent inside the watch's own functions, by the CPU clock of its thread, so that other work
on the machine does not count. The second compares whole trainings by the CPU clock of the process; on a noisy machine
it needs rounds.
"""

from __future__ import annotations

import contextlib
import io
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

import torch  # noqa: E402
from shop import Workshop  # noqa: E402
from transformers.utils import logging as transformers_logging  # noqa: E402

import testigo  # noqa: E402
from testigo.attach.taps import Taps  # noqa: E402

HOOKS = ("on_pre_optimizer_step", "on_step_end", "on_log", "on_evaluate")
#: Seconds of an update of SmolLM2 135M in `testigo demo` on two cores: what the watch costs a model of real size.
DEMO_UPDATE_SECONDS = 2.7
TAPS = ("_after_training_step", "_after_prediction_step", "_after_norm")


class Clock:
    """Adds up the time inside some functions; a clock's own time is measured and taken off."""

    def __init__(self) -> None:
        self.seconds, self.calls = 0.0, 0

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **named: Any) -> Any:
            start = time.thread_time()
            result = function(*arguments, **named)
            self.seconds += time.thread_time() - start
            self.calls += 1
            return result

        return timed


def train(updates: int, watch: testigo.Watch | None) -> float:
    """CPU seconds of a training."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        shop = Workshop(Path(folder))
        trainer = shop.trainer(max_steps=updates, logging_steps=100, learning_rate=1e-4)
        if watch is not None:
            trainer.add_callback(watch)
        start = time.process_time()
        trainer.train()
        return time.process_time() - start


def own_time(updates: int) -> float:
    """Seconds an update inside the watch."""
    clock, watch = Clock(), testigo.Watch()
    for name in HOOKS:
        setattr(watch, name, clock.around(getattr(watch, name)))
    kept = {name: getattr(Taps, name) for name in TAPS}
    for name, function in kept.items():
        setattr(Taps, name, clock.around(function))
    try:
        train(updates, watch)
    finally:
        for name, function in kept.items():
            setattr(Taps, name, function)
    empty = Clock()
    nothing = empty.around(lambda: None)
    for _ in range(clock.calls):
        nothing()
    return max(clock.seconds - empty.seconds, 0.0) / updates


def main(updates: int, rounds: int) -> None:
    torch.set_num_threads(1)
    transformers_logging.set_verbosity_error()
    warnings.simplefilter("ignore")
    train(20, testigo.Watch())  # what is loaded at first use
    own = min(own_time(updates) for _ in range(3))
    share = own / DEMO_UPDATE_SECONDS
    print(f"inside the watch: {own * 1e6:.0f} µs an update, {share:.4%} of one of SmolLM2 ({DEMO_UPDATE_SECONDS} s)")
    differences, alone = [], []
    for number in range(rounds):
        pair = {}
        for watched in (number % 2 == 0, number % 2 == 1):
            pair[watched] = train(updates, testigo.Watch() if watched else None) / updates
        differences.append(pair[True] - pair[False])
        alone.append(pair[False])
    middle = statistics.median(differences)
    spread = statistics.median(abs(one - middle) for one in differences)
    print(
        f"with and without, alternating, {rounds} rounds of {updates} updates: {middle * 1e6:.0f} ± {spread * 1e6:.0f}"
    )
    print(f"µs an update, of {statistics.median(alone) * 1e6:,.0f}")


if __name__ == "__main__":
    main(*(int(word) for word in (*sys.argv[1:], "400", "6")[:2]))
