"""Real trainings on tiny shapes, their memory as torch's CPU allocator gave it out, beside what sizing predicts."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from torch.profiler import ProfilerActivity, profile
from transformers import (
    AutoModelForCausalLM,
    AutoModelForImageClassification,
    AutoModelForSequenceClassification,
    BertConfig,
    GPT2Config,
    LlamaConfig,
    Qwen2Config,
    ViTConfig,
)

from testigo.campaign import Campaign, load, new_campaign
from testigo.encoding import Batch, LabelledRow, lay_out
from testigo.model.activations import checkpoint_activations
from testigo.model.adapter import attach
from testigo.model.head import head_modules, keep_statistics
from testigo.model.load import dtype_of
from testigo.sizing.lengths import Inputs, Meeting, RowLength, RowLengths, worst
from testigo.sizing.rehearse import rehearse
from testigo.training.loop import Session
from testigo.training.order import Order

CONFIGURATIONS: dict[str, Any] = {
    "llama": LlamaConfig(
        hidden_size=96,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=6,
        num_key_value_heads=3,
        vocab_size=2000,
        max_position_embeddings=512,
    ),
    "small": LlamaConfig(
        hidden_size=96,
        intermediate_size=256,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=2000,
        max_position_embeddings=512,
    ),
    "gpt2": GPT2Config(
        n_embd=96, n_layer=2, n_head=4, vocab_size=2000, n_positions=512, bos_token_id=1, eos_token_id=1
    ),
    "qwen2": Qwen2Config(
        hidden_size=96,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=6,
        num_key_value_heads=2,
        vocab_size=3000,
        max_position_embeddings=512,
        tie_word_embeddings=True,
    ),
    "bert": BertConfig(
        hidden_size=96,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        vocab_size=2000,
        max_position_embeddings=512,
    ),
    "vit": ViTConfig(
        hidden_size=96,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        image_size=32,
        patch_size=4,
    ),
}
CLASSES = ("a", "b", "c")
_HEADS = {"bert": AutoModelForSequenceClassification, "vit": AutoModelForImageClassification}
SHORT = RowLengths(
    train=tuple(RowLength(40 + 5 * n, 70 + 9 * n) for n in range(6)),
    validation=tuple(RowLength(50 + 7 * n, 80 + 8 * n) for n in range(4)),
    n_shared=25,
)
LONG = RowLengths(
    train=tuple(RowLength(150 + 10 * n, 200 + 40 * n) for n in range(6)),
    validation=tuple(RowLength(150 + 20 * n, 180 + 40 * n) for n in range(4)),
    n_shared=25,
)
SHARED = RowLengths(
    train=tuple(RowLength(150 + 6 * n, 180 + 10 * n) for n in range(6)),
    validation=tuple(RowLength(150 + 8 * n, 180 + 15 * n) for n in range(4)),
    n_shared=120,
)
Rows = Literal["short", "long", "shared"]
LENGTHS: dict[Rows, RowLengths] = {"short": SHORT, "long": LONG, "shared": SHARED}
BATCH = 2
"""Of validation and generation: half of the rows, so that the longest ones are a batch as the loop lays them."""


@dataclass(frozen=True)
class Case:
    """One tiny architecture with settings of its campaign."""

    name: str
    rows: Rows = "short"
    settings: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        told = [key if value is True else str(value) if isinstance(value, str) else f"{key} {value}"
                for key, value in self.settings.items()]  # fmt: skip
        return " ".join([self.name, self.rows, *told]).replace("activation_", "")


def campaign_in(folder: Path) -> Callable[..., Campaign]:
    """A campaign on one of the tiny architectures: its folder holds config.json and nothing else."""
    new_campaign(folder / "new")
    plain = load(folder / "new" / "campaign.yaml").to_json()

    def make(
        name: str,
        *,
        method: str = "lora",
        precision: str = "fp32",
        layout: str = "packed",
        quantise: str | None = None,
        **training: Any,
    ) -> Campaign:
        CONFIGURATIONS[name].save_pretrained(folder / "new" / name)
        model = plain["model"] | {"base": f"path:{name}", "precision": precision, "quantise": quantise}
        if method == "full":
            model["adapter"] = {"method": "full"}
        else:
            model["adapter"] = model["adapter"] | {"method": method, "rank": 8}
        changed = plain | {
            "model": model,
            "encoding": plain["encoding"] | {"layout": layout},
            "training": plain["training"] | {"microbatch": 2, "accumulation": 1} | training,
            "evaluation": {"max_new_tokens": 12, "batch_size": BATCH},
        }
        if name in _HEADS:
            kind = "classification" if name == "bert" else "image-classification"
            changed["task"] = {"kind": kind, "input": "email", "target": "domain", "labels": list(CLASSES)}
            changed["hypothesis"] = {"improve": {"metric": "accuracy", "by": 0.1}}
            changed["evaluation"] = {"batch_size": BATCH}
        return Campaign.from_json(changed, folder=folder / "new")

    return make


@dataclass
class Allocator:
    """Bytes that the CPU allocator holds: what was there before, and every change that the profiler saw."""

    level: int

    def peak_of(self, work: Callable[[], object]) -> int:
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
            work()
        events = profiled.profiler.kineto_results.events()  # type: ignore[union-attr]
        changes = sorted((event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]")
        peak = self.level
        for _, n_bytes in changes:
            self.level += n_bytes
            peak = max(peak, self.level)
        return peak


def inputs_of(campaign: Campaign, name: str, rows: Rows = "short") -> Inputs:
    """The worst rows of this campaign."""
    training, lengths = campaign.training, LENGTHS[rows]
    if name in _HEADS:
        pixels = (3, 32, 32) if name == "vit" else None
        lengths = RowLengths(lengths.train, lengths.validation, 0, len(CLASSES), pixels)
    packed = campaign.encoding.layout == "packed" and name not in _HEADS
    return worst(lengths, Meeting(training.microbatch, training.accumulation, BATCH, is_packed=packed))


def real_model(campaign: Campaign, name: str, *, seed: int = 0) -> tuple[Any, Allocator]:
    """A model with random weights as the campaign trains it, and what it holds."""
    torch.manual_seed(seed)
    configuration, adapter = copy.deepcopy(CONFIGURATIONS[name]), campaign.model.adapter
    dtype = dtype_of(campaign.model.precision, full=adapter.method == "full" or name in _HEADS)
    if name in _HEADS:
        configuration.num_labels = len(CLASSES)
        base = _HEADS[name].from_config(configuration, dtype=dtype)
        keep_statistics(base)
        model = attach(base, adapter, seed=0, head=head_modules(base))
    else:
        model = attach(AutoModelForCausalLM.from_config(configuration, dtype=dtype), adapter, seed=0)
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage() for t in (*model.parameters(), *model.buffers())}
    return model, Allocator(sum(storage.nbytes() for storage in storages.values()))


def measured(campaign: Campaign, case: Case) -> dict[str, int]:
    """Peaks of the real session: two updates and a validation [bytes]."""
    inputs = inputs_of(campaign, case.name, case.rows)
    model, allocator = real_model(campaign, case.name)
    if campaign.training.activation_checkpointing:
        checkpoint_activations(model)
    model.train()
    lengths = [row for rows in inputs.microbatches for row in rows]
    rows, validation, lay = _rows(campaign, inputs, lengths, LENGTHS[case.rows].validation)
    with tempfile.TemporaryDirectory() as folder:
        session = Session(
            settings=campaign,
            seed=0,
            model=model,
            rows=rows,
            validation_rows=validation,
            order=Order(n_rows=len(rows), rows_per_update=len(rows), n_updates=2, seed=0),
            lay=lay,
            device=torch.device("cpu"),
            folder=Path(folder),
        )
        return {
            "update-1": allocator.peak_of(lambda: session.step(1)),
            "update-2": allocator.peak_of(lambda: session.step(2)),
            "validation": allocator.peak_of(session.validate),
        }


def _rows(
    campaign: Campaign, inputs: Inputs, lengths: Sequence[RowLength], validation: Sequence[RowLength]
) -> tuple[Sequence[Any], Sequence[Any], Callable[[Sequence[Any]], Batch]]:
    if not inputs.n_classes:
        layout = campaign.encoding.layout
        return inputs.encoded(lengths), inputs.encoded(validation), lambda rows: lay_out(rows, layout, pad_id=0)
    made = [
        [LabelledRow(str(k), "", k % inputs.n_classes, (1,) * row.n_tokens) for k, row in enumerate(own)]
        for own in (lengths, validation)
    ]
    return made[0], made[1], lambda rows: inputs.before_a_head([RowLength(row.n_tokens, row.n_tokens) for row in rows])


def errors_of(campaign: Campaign, case: Case) -> dict[str, float]:
    """Phase -> (predicted - measured) / measured."""
    real = measured(campaign, case)
    inputs = inputs_of(campaign, case.name, case.rows)
    predicted = rehearse(campaign, CONFIGURATIONS[case.name], inputs, parts=["train"], block_bytes=1, foreach=False)
    return {phase: predicted[phase].n_bytes / n_bytes - 1 for phase, n_bytes in real.items()}
