"""How long a large dossier takes, and how large its page is: 50 runs, each with 2,000 evaluated rows.

    python benchmarks/dossier.py [RUNS] [ROWS] [FOLDER]

The workspace is made by the product's own rooms (corpus, ledger, comparison); only what a model would have written is
made up. Seconds are told by the clock and by the CPU of the process: on a machine with other work the second counts.
"""

from __future__ import annotations

import json
import math
import random
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "dossier"))

import conftest as stories  # noqa: E402
from testigo.campaign import planned_runs  # noqa: E402
from testigo.dossier import verify_dossier  # noqa: E402

UPDATES = 1000
SEEDS = 5


def campaign_text(n_runs: int) -> str:
    """The tests' campaign with as many variants as the runs ask for."""
    rates = [f"{1e-3 * 0.9**i:.3g}" for i in range(1, n_runs // SEEDS)]
    variants = "".join(
        f"  - {{name: rate-{rate}, set: {{training.learning_rate: {rate}}}, because: a step of the ladder}}\n"
        for rate in rates
    )
    before, rest = stories.CAMPAIGN.split("variants:\n")
    _, after = rest.split("seeds: [0, 1]\n")
    seeds = f"seeds: {list(range(SEEDS))}\n"
    return before.replace("updates: 60", f"updates: {UPDATES}") + f"variants:\n{variants}" + seeds + after


def long_curve(folder: Path, rate: float) -> None:
    """The run's steps and the outputs of its fixed prompts, as long as real ones."""
    draw = random.Random(str(folder))
    steps: list[dict[str, Any]] = []
    samples: list[dict[str, Any]] = []
    for update in range(1, UPDATES + 1):
        loss = 0.06 + 2.2 * math.exp(-update * 8 * rate) + abs(draw.gauss(0, 0.03))
        at = rate * min(1.0, update / 100) * (0.5 + 0.5 * math.cos(math.pi * update / UPDATES))
        steps.append({"update": update, "loss": loss, "learning_rate": at, "gradient_norm": 0.4 + loss, "seconds": 5.9})
        if update % 50 == 0:
            steps.append({"update": update, "validation_loss": loss * 1.08, "validation_tokens": 90_000, "seconds": 60})
            score = float(draw.random() < 1 - loss)
            samples += [
                {
                    "update": update,
                    "row": f"o{i}",
                    "output": "{}" * 20,
                    "target": "{}",
                    "scores": {"exact_match": score},
                }
                for i in range(8)
            ]
    for name, lines in (("steps.jsonl", steps), ("samples.jsonl", samples)):
        (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def workspace(folder: Path, n_runs: int, n_rows: int) -> Any:
    """A whole campaign of so many runs on so many validation rows."""
    campaign = stories.write_campaign(folder, campaign_text(n_runs), n_rows=5 * n_rows)
    story = stories.begin(folder, campaign)
    corpus = stories.make_corpus(story)
    stories.make_baseline(story, corpus)
    stories.make_pilot(story)
    names = {}
    for planned in planned_runs(campaign):
        rate = planned.campaign.training.learning_rate
        longer = partial(long_curve, rate=rate)
        names[planned.variant, planned.seed] = stories.make_run(story, corpus, planned, before_it_ends=longer)
    stories.make_comparison(story, names)
    stories.make_adapter(story)
    return story


def timed(what: str, work: Any) -> Any:
    """Do it and say how long it took."""
    began, cpu = time.perf_counter(), time.process_time()
    result = work()
    print(f"{what}: {time.perf_counter() - began:.1f} s, {time.process_time() - cpu:.1f} s of CPU", flush=True)
    return result


def main(n_runs: int, n_rows: int, folder: Path) -> None:
    story = timed(f"workspace of {n_runs} runs × {n_rows} rows", lambda: workspace(folder, n_runs, n_rows))
    dossier = timed("dossier", story.write)
    for name in ("index.html", "dossier.json", "croissant.json", "MODEL_CARD.md"):
        print(f"{name}: {(dossier / name).stat().st_size / 1e6:.2f} MB")
    result = timed("verify", lambda: verify_dossier(dossier))
    print("whole" if result.ok else "\n".join(result.faults))


if __name__ == "__main__":
    runs, rows = (int(sys.argv[i]) if len(sys.argv) > i else default for i, default in ((1, 50), (2, 2000)))
    if len(sys.argv) > 3:
        main(runs, rows, Path(sys.argv[3]))
    else:
        with tempfile.TemporaryDirectory() as made:
            main(runs, rows, Path(made))
