"""How exact `testigo size` is, and what it takes itself.

    python benchmarks/sizing.py [--json FILE]

First: predicted peaks of two updates and a validation against what torch's CPU allocator really gave out, for full and
LoRA, with and without activation checkpointing, Llama, GPT-2, Qwen2, BERT and ViT shapes, with short and long rows and
with rows that begin alike over several packs of an update. Second: an 8 B Llama with LoRA of rank 16, activation
checkpointing and 2 × 2048 tokens, sized for an 80 GiB GPU in a fresh process: seconds and resident memory.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from itertools import product
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

import torch
from memory import CONFIGURATIONS, LENGTHS, Case, campaign_in, errors_of
from peers import keep

FAMILIES = ("llama", "gpt2", "qwen2", "bert", "vit")


def cases() -> list[Case]:
    """Every combination; images have one size, so no lengths, and class heads read rows apart from each other."""
    every = []
    for name, method, recompute, rows in product(FAMILIES, ("lora", "full"), (False, True), LENGTHS):
        if (name == "vit" and rows != "short") or (name == "bert" and rows == "shared"):
            continue
        microbatch, accumulation = (4, 2) if name == "vit" else (1, 4) if rows == "shared" else (2, 2)
        settings: dict[str, Any] = {"method": method, "microbatch": microbatch, "accumulation": accumulation}
        if recompute:
            settings["activation_checkpointing"] = True
        every.append(Case(name, rows, settings))
    return every


def exactness() -> dict[str, Any]:
    """Relative errors of all cases and phases."""
    errors = {}
    with tempfile.TemporaryDirectory() as folder:
        campaign_on = campaign_in(Path(folder))
        for case in cases():
            for phase, error in errors_of(campaign_on(case.name, **case.settings), case).items():
                errors[f"{case}: {phase}"] = error
    return {
        "cases": len(cases()),
        "predictions": len(errors),
        "median": statistics.median(map(abs, errors.values())),
        "worst": max(map(abs, errors.values())),
        "lowest": min(errors.values()),
        "highest": max(errors.values()),
        "errors": errors,
    }


def eight_billion() -> dict[str, Any]:
    """Run in a process of its own: resident memory is that of a whole life."""
    from transformers import LlamaConfig

    from testigo.sizing import RowLength, RowLengths, size

    CONFIGURATIONS["8b"] = LlamaConfig(
        hidden_size=4096,
        intermediate_size=14336,
        num_hidden_layers=32,
        num_attention_heads=32,
        num_key_value_heads=8,
        vocab_size=128256,
        max_position_embeddings=8192,
    )
    lengths = RowLengths((RowLength(1900, 2048),) * 8, (RowLength(1900, 2048),) * 4)
    with tempfile.TemporaryDirectory() as folder:
        campaign = campaign_in(Path(folder))("8b", precision="bf16", activation_checkpointing=True)
        began, cpu = time.perf_counter(), time.process_time()
        sizing = size(campaign, gpu_bytes=80 << 30, lengths=lengths)
        seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "resident_gib": resident / 2**30,
        "needed_gib": sizing.needed_bytes / 2**30,
        "verdict": sizing.verdict,
        "largest_microbatch": sizing.largest_microbatch,
        "largest_length": sizing.largest_length,
    }


def main(out: Path | None) -> None:
    """Print both figures; write them where asked."""
    torch.set_num_threads(1)
    big = json.loads(
        subprocess.run([sys.executable, __file__, "--big"], check=True, capture_output=True, text=True).stdout
    )
    print(
        f"8 B, LoRA, 2 × 2048: {big['seconds']:.0f} s ({big['cpu_seconds']:.0f} s of CPU), "
        f"{big['resident_gib']:.2f} GiB resident (asked: 90 s, 3 GiB); needs {big['needed_gib']:.1f} GiB"
    )
    exact = exactness()
    for case, error in exact["errors"].items():
        print(f"{error:+8.2%}  {case}")
    print(
        f"{exact['cases']} cases, {exact['predictions']} predictions: median error {exact['median']:.2%} (asked: 3 %), "
        f"worst {exact['worst']:.2%} (8 %), lowest {exact['lowest']:+.2%} (−2 %)"
    )
    if out is not None:
        keep({"exactness": exact, "eight_billion": big}, out)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--big", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.big:
        print(json.dumps(eight_billion()))
    else:
        main(options.json)
