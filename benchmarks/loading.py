"""Time to the first update: of a new run, and of one that goes on at row 10 million, in turns.

    python benchmarks/loading.py [ROWS] [ROUNDS] [--json FILE]

Ten and a half million encoded rows of eight tokens on disk, a tiny Llama, one thread: what is measured is what opening
the rows, their order, the first update's rows and its packs cost. Each start is a fresh process.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from peers import Contestant, answer, keep, middle_and_spread, peak_resident_bytes, split_file

ROWS, TOKENS, PER_UPDATE, RESUMED_AT = 10_500_000, 8, 8, 10_000_000


def fill(folder: Path, n: int) -> None:
    """A store of rows as `testigo.encoding.store` writes it, made at once."""
    import numpy as np

    draw = np.random.default_rng(0)
    bounds = np.arange(n + 1, dtype=np.int64)
    arrays = {
        "ids": draw.integers(3, 200, n * TOKENS, dtype=np.int32),
        "bounds": bounds * TOKENS,
        "n_prompt": np.full(n, TOKENS // 2, dtype=np.int32),
        "spans": np.zeros((0, 2), dtype=np.int32),
        "span_bounds": bounds * 0,
        "names": draw.integers(97, 123, n * 8, dtype=np.uint8),
        "name_bounds": bounds * 8,
        "categories": np.zeros(n, dtype=np.int32),
    }
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    (folder / "categories.json").write_text(json.dumps([""]))


def begin(folder: Path, update: int) -> None:
    """The first update of a fresh process, from the start of its loading on."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    import testigo
    from testigo.encoding import StoredRows, lay_out
    from testigo.training.loop import Session
    from testigo.training.order import Order
    from training import CAMPAIGN

    torch.set_num_threads(1)
    torch.manual_seed(0)
    configuration = LlamaConfig(
        vocab_size=200, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4
    )
    (folder / "rows.jsonl").write_text('{"id": "a", "prompt": "a", "target": "b"}\n')
    (folder / "campaign.yaml").write_text(CAMPAIGN.format(layout="packed", microbatch=8, accumulation=1))
    settings = testigo.load(folder / "campaign.yaml")
    model = LlamaForCausalLM(configuration)
    start, cpu = time.perf_counter(), time.process_time()
    rows = StoredRows(folder)
    session = Session(
        settings=settings,
        seed=0,
        model=model,
        rows=rows,
        validation_rows=(),
        order=Order(len(rows), PER_UPDATE, len(rows) // PER_UPDATE, 0),
        lay=lambda some: lay_out(some, "packed", pad_id=0),
        device=torch.device("cpu"),
        folder=folder,
    )
    session.progress.update = update
    session.model.train()
    line = session.step(update + 1)
    used = {"seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu}
    answer(**used, rows=line["rows"][:2], peak=peak_resident_bytes())


def contest(rows: int, rounds: int) -> dict[str, Any]:
    starts = {"new": 0, "resumed": min(RESUMED_AT, rows - PER_UPDATE) // PER_UPDATE}
    found: dict[str, Any] = {"rows": rows, "rounds": rounds, "starts": {name: [] for name in starts}}
    with tempfile.TemporaryDirectory() as folder:
        fill(Path(folder), rows)
        for number in range(rounds + 1):
            for name in sorted(starts, reverse=bool(number % 2)):
                run = Contestant(__file__, "--be", folder, str(starts[name]), threads=1)
                said = run.ask("begin")
                run.end()
                if number:  # the first round brings the files into memory
                    found["starts"][name].append(said)
    pairs = list(zip(found["starts"]["resumed"], found["starts"]["new"], strict=True))
    found["ratio"] = middle_and_spread([a["seconds"] / b["seconds"] for a, b in pairs])
    found["cpu_ratio"] = middle_and_spread([a["cpu"] / b["cpu"] for a, b in pairs])
    return found


def told(found: dict[str, Any]) -> None:
    print(f"{found['rows']:,} rows, {found['rounds']} rounds, time to the first update")
    for name, said in found["starts"].items():
        middle, spread = middle_and_spread([one["seconds"] for one in said])
        print(f"  {name:8} {middle:6.2f} ± {spread:.2f} s  peak {max(one['peak'] for one in said) / 2**20:.0f} MiB")
    print(f"  resumed takes {found['ratio'][0]:.2f} ± {found['ratio'][1]:.2f} of new")


def main(words: list[str]) -> None:
    if words[:1] == ["--be"]:
        begin(Path(words[1]), int(words[2]))
        return
    words, file = split_file(words)
    numbers = [int(word) for word in words] or [ROWS]
    found = contest(numbers[0], numbers[1] if len(numbers) > 1 else 3)
    told(found)
    keep(found, file)


if __name__ == "__main__":
    main(sys.argv[1:])
