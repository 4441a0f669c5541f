"""Tiny real models with a chat tokenizer, and a tiny campaign on them: whole runs in a second."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import torch
from ruamel.yaml import YAML
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    AutoModelForCausalLM,
    GPT2Config,
    LlamaConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
)

from testigo.campaign import Campaign, PlannedRun, load, run_id
from testigo.corpus import Corpus, Row, build
from testigo.encoding import EncodedRow
from testigo.model.base import BaseFiles, base_of, locate
from testigo.tasks import task_for
from testigo.training.journal import read_lines
from testigo.training.launchers.local import environment
from testigo.training.loop import Session
from testigo.training.prepare import Prepared, prepare, session
from testigo.training.spec import RunSpec

SYSTEM = "Say what is ordered, then how many."
CHATML = (
    "{% for m in messages %}"
    "{% if loop.first and m['role'] != 'system' %}{{ '<|im_start|>system\nYou help.<|im_end|>\n' }}{% endif %}"
    "{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
CONFIGURATIONS = {
    "llama": lambda n: LlamaConfig(
        vocab_size=n, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256, tie_word_embeddings=True,
    ),
    "gpt2": lambda n: GPT2Config(
        vocab_size=n, n_embd=32, n_layer=2, n_head=4, n_positions=256, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0
    ),
    "qwen2": lambda n: Qwen2Config(
        vocab_size=n, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256, tie_word_embeddings=False,
    ),
}  # fmt: skip


@lru_cache
def _trained(extra: tuple[str, ...], *, merge_seams: bool) -> str:
    own = Tokenizer(models.BPE())
    own.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not merge_seams)
    own.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>", *extra],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    texts = [f"{row['email']}\n{row['order']}" for row in rows()] + [SYSTEM, "system user assistant", "{} [] ,"]
    own.train_from_iterator(texts, trainer)
    return own.to_str()


def tokenizer(
    *,
    template: str | None = CHATML,
    eos: str | None = "<|im_end|>",
    bos: str | None = "<|im_start|>",
    extra: tuple[str, ...] = (),
    merge_seams: bool = False,
) -> PreTrainedTokenizerFast:
    """A byte-level BPE of about 400 ids, with the end of a turn as its padding, as SmolLM2 has it."""
    own = Tokenizer.from_str(_trained(extra, merge_seams=merge_seams))
    fast = PreTrainedTokenizerFast(tokenizer_object=own, bos_token=bos, eos_token=eos, pad_token=eos)
    fast.chat_template = template
    return fast


def save_base(folder: Path, kind: str, *, seed: int = 0, spread: float = 0.3) -> Path:
    """A random model of a kind with its tokenizer, as safetensors. Wide weights: its logits differ by inputs."""
    words = tokenizer()
    configuration = CONFIGURATIONS[kind](len(words))
    configuration.bos_token_id, configuration.eos_token_id = words.bos_token_id, words.eos_token_id
    configuration.pad_token_id = words.pad_token_id
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(configuration)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim >= 2:
                parameter.normal_(0.0, spread if "embed" not in name and "wt" not in name else 0.05)
    model.save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


def rows(n: int = 60) -> list[dict[str, Any]]:
    """Short e-mails in four languages: some of one line, some of several."""
    greetings = ("Hello,", "Hola:", "Bom dia,", "Bonjour,")
    things = ("apples", "sillas", "café", "lampes", "pens", "naïve maps")
    made = []
    for k in range(n):
        thing, count = things[(k * 5 + k // 7) % len(things)], 2 + (k * 7) % 23
        filler = " ".join(["please be quick"] * (k % 4)) + ("\nThank you!" if k % 3 == 0 else "")
        made.append(
            {
                "id": f"r{k:02d}",
                "email": f"{greetings[k % 4]} we want {count} {thing}. {filler} Ref {k * 13}".strip(),
                "order": f"{thing}: {count}",
                "customer": f"c{k // 2}",
                "domain": ("shop", "office")[k % 2],
            }
        )
    return made


SETTINGS: dict[str, Any] = {
    "campaign": "tiny",
    "question": "Does the tiny model learn anything?",
    "task": {"kind": "generation", "input": "email", "target": "order", "category": "domain", "system": SYSTEM},
    "hypothesis": {"improve": {"metric": "exact_match", "by": 0.1}},
    "data": {
        "source": "orders.jsonl",
        "group": "customer",
        "duplicates": {"exact": "drop", "near": None},
        "split": {"train": 0.6, "validation": 0.2, "test": 0.2, "seed": 1},
    },
    "model": {"base": "path:llama", "adapter": {"method": "lora", "rank": 4, "alpha": 8}},
    "training": {"updates": 6, "microbatch": 2, "accumulation": 2, "learning_rate": 1e-2, "validate_every": 3},
    "evaluation": {"max_new_tokens": 8, "batch_size": 4},
}


@dataclass(frozen=True)
class Tiny:
    """A campaign folder with its bases and its corpus, and ways to make runs of it."""

    folder: Path
    settings: Mapping[str, Any] = field(default_factory=dict)

    def campaign(self, changes: Mapping[str, Any] | None = None, **settings: Any) -> Campaign:
        """The campaign with changes by dotted key; `None` as a section's value leaves it out."""
        plain = json.loads(json.dumps(SETTINGS))
        for key, value in {**self.settings, **(changes or {}), **settings}.items():
            section, place = plain, key.split(".")
            for name in place[:-1]:
                section = section.setdefault(name, {})
            section[place[-1]] = copy.deepcopy(value)
            if key == "training.epochs":
                plain["training"].pop("updates")
        path = self.folder / "campaign.yaml"
        with path.open("w", encoding="utf-8") as file:
            YAML().dump(plain, file)
        return load(path)

    @cached_property
    def corpus(self) -> Corpus:
        """The rows, split once."""
        campaign = self.campaign()
        task = task_for(campaign)
        return build(campaign, lambda _: self.folder / "corpus", lambda row: task.problems(row.fields))

    def base(self, kind: str = "llama") -> BaseFiles:
        return locate(f"path:{kind}", relative_to=self.folder)

    def spec(self, changes: Mapping[str, Any] | None = None, *, seed: int = 0, **restricted: Any) -> RunSpec:
        """A frozen run of the campaign."""
        campaign = self.campaign(changes)
        planned = PlannedRun("control", seed, campaign)
        base = base_of(campaign)
        made = RunSpec(
            run_id=run_id(planned, corpus=self.corpus.fingerprint, base=base.digest),
            variant="control",
            seed=seed,
            campaign=campaign.to_json(),
            campaign_folder=str(self.folder),
            corpus=str(self.corpus.folder.resolve()),
            base_digest=base.digest,
        )
        return replace(made, **restricted)

    def prepared(self, changes: Mapping[str, Any] | None = None) -> Prepared:
        return prepare(self.spec(changes))

    def session(
        self, folder: Path, changes: Mapping[str, Any] | None = None, *, seed: int = 0, **restricted: Any
    ) -> Session:
        """A run in this process, at its very start."""
        spec = self.spec(changes, seed=seed, **restricted)
        return session(spec, prepare(spec), folder)


def in_process(module: str, *arguments: str) -> subprocess.Popen[str]:
    """A worker as its launcher starts it, on one thread."""
    one_thread = {**environment(), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        env=one_thread, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def updates(folder: Path) -> list[dict[str, Any]]:
    """The update lines of a run."""
    return [line for line in read_lines(folder / "steps.jsonl") if "loss" in line]


def validations(folder: Path) -> list[dict[str, Any]]:
    """The validation lines of a run."""
    return [line for line in read_lines(folder / "steps.jsonl") if "validation_loss" in line]


def gradients(model: Any) -> dict[str, torch.Tensor]:
    """Copies of the gradients by name."""
    return {name: p.grad.detach().clone() for name, p in model.named_parameters() if p.grad is not None}


def relative_error(a: Mapping[str, torch.Tensor], b: Mapping[str, torch.Tensor]) -> float:
    """The norm of the difference of two sets of tensors over the norm of the second."""
    assert a.keys() == b.keys()
    assert a
    difference = sum(float((a[name].double() - b[name].double()).pow(2).sum()) for name in a)
    return (difference / sum(float(b[name].double().pow(2).sum()) for name in b)) ** 0.5


def made_row(name: str, prompt: tuple[int, ...], answer: tuple[int, ...]) -> EncodedRow:
    """A row by its ids."""
    return EncodedRow(name, "", (*prompt, *answer), len(prompt))


def row_of(name: str, **fields: Any) -> Row:
    """A row of a corpus by its fields."""
    return Row(name, name, "", fields, "")
