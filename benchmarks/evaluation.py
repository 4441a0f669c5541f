"""Greedy outputs for 100 rows, against batched `generate` of transformers at the same settings, in turns.

    python benchmarks/evaluation.py [ROWS] [ROUNDS] [--json FILE]

The rows and prompts of `examples/orders`, its base SmolLM2 135M in fp32, sixteen rows at once, at most 72 new tokens,
two threads. Rows whose tokens are not the same are named.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from peers import ROOT, Contestant, answer, keep, middle_and_spread, peak_resident_bytes, split_file

ROWS, BATCH, MOST = 100, 16, 72


def loaded() -> tuple[Any, Any, list[tuple[int, ...]]]:
    """The base, the encoder and the prompts of the first rows of the example."""
    import torch

    import testigo
    from testigo.model.base import locate
    from testigo.model.encoder import encoder_for
    from testigo.model.load import load_base

    torch.set_num_threads(2)
    settings = testigo.load(ROOT / "examples" / "orders" / "campaign.yaml")
    base = load_base(locate(settings.model.base, relative_to=settings.folder))
    encoder: Any = encoder_for(settings, base.tokenizer, base.model.config)
    with (ROOT / "examples" / "orders" / "orders.jsonl").open() as file:
        rows = [json.loads(line) for line, _ in zip(file, range(ROWS), strict=False)]
    return base.model, encoder, [encoder.prompt_ids(row) for row in rows]


def run_testigo() -> None:
    import torch

    from testigo.evaluation.decode import decode_all

    model, encoder, prompts = loaded()
    for word in sys.stdin:
        if word.strip() == "peak":
            answer(peak=peak_resident_bytes())
            continue
        start, cpu = time.perf_counter(), time.process_time()
        with torch.inference_mode():
            made = decode_all(
                model, prompts[: int(word)], stop_ids=encoder.frame.stop_ids, max_new_tokens=MOST, batch_size=BATCH
            )
        used = {"seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu}
        answer(**used, tokens=[list(one.token_ids) for one in made])


def run_transformers() -> None:
    import torch

    model, encoder, prompts = loaded()
    stops = set(encoder.frame.stop_ids)
    for word in sys.stdin:
        if word.strip() == "peak":
            answer(peak=peak_resident_bytes())
            continue
        start, cpu, made = time.perf_counter(), time.process_time(), []
        chosen = prompts[: int(word)]
        for at in range(0, len(chosen), BATCH):
            some = chosen[at : at + BATCH]
            n = max(map(len, some))
            ids = torch.tensor([[0] * (n - len(prompt)) + list(prompt) for prompt in some])
            mask = torch.tensor([[0] * (n - len(prompt)) + [1] * len(prompt) for prompt in some])
            with torch.inference_mode():
                out = model.generate(
                    ids,
                    attention_mask=mask,
                    do_sample=False,
                    max_new_tokens=MOST,
                    eos_token_id=sorted(stops),
                    pad_token_id=0,
                )
            for line in out[:, n:].tolist():
                end = next((k for k, token in enumerate(line) if token in stops), len(line))
                made.append(line[:end])
        answer(seconds=time.perf_counter() - start, cpu=time.process_time() - cpu, tokens=made)


def contest(rows: int, rounds: int) -> dict[str, Any]:
    names = ("testigo", "transformers")
    runs = [Contestant(__file__, "--be", name) for name in names]
    for run in runs:
        run.ask("2")
    seconds: dict[str, list[float]] = {name: [] for name in names}
    cpu: dict[str, list[float]] = {name: [] for name in names}
    tokens: dict[str, Any] = {}
    for number in range(rounds):
        for at in (0, 1) if number % 2 else (1, 0):
            said = runs[at].ask(str(rows))
            seconds[names[at]].append(said["seconds"])
            cpu[names[at]].append(said["cpu"])
            print(f"  {names[at]}: {said['seconds']:.1f} s, CPU {said['cpu']:.1f} s", file=sys.stderr, flush=True)
            tokens[names[at]] = said["tokens"]
    peaks = {name: run.ask("peak")["peak"] for name, run in zip(names, runs, strict=True)}
    for run in runs:
        run.end()
    unlike = [k for k, (a, b) in enumerate(zip(tokens["testigo"], tokens["transformers"], strict=True)) if a != b]
    ratio = middle_and_spread([b / a for a, b in zip(seconds["testigo"], seconds["transformers"], strict=True)])
    return {
        "rows": rows, "rounds": rounds, "seconds": seconds, "ratio": ratio, "peaks": peaks, "unlike": unlike,
        "cpu_ratio": middle_and_spread([b / a for a, b in zip(cpu["testigo"], cpu["transformers"], strict=True)]),
        "tokens": sum(map(len, tokens["testigo"])),
    }  # fmt: skip


def told(found: dict[str, Any]) -> None:
    print(f"{found['rows']} rows, {found['tokens']} tokens written, {found['rounds']} rounds")
    for name, own in found["seconds"].items():
        print(f"  {name:14} {middle_and_spread(own)[0]:7.1f} s  peak {found['peaks'][name] / 2**20:7.0f} MiB")
    middle, spread = found["ratio"]
    print(
        f"  transformers takes {middle:.2f} ± {spread:.2f} of ours (CPU time {found['cpu_ratio'][0]:.2f}); "
        f"rows unlike: {found['unlike']}"
    )


def main(words: list[str]) -> None:
    if words[:1] == ["--be"]:
        return run_testigo() if words[1] == "testigo" else run_transformers()
    words, file = split_file(words)
    numbers = [int(word) for word in words] or [ROWS]
    found = contest(numbers[0], numbers[1] if len(numbers) > 1 else 2)
    told(found)
    keep(found, file)
    return None


if __name__ == "__main__":
    main(sys.argv[1:])
